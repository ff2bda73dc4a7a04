#include "tests/conformance/test_data.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "host/onnx/tensor_data.h"

namespace gantry::conformance {

namespace fs = std::filesystem;

namespace {
constexpr const char* kDebianData = "/usr/share/libonnx-testdata/data";
}

bool is_debian_data(const fs::path& root) {
  return root.string().starts_with(kDebianData);
}

std::vector<fs::path> data_roots() {
  std::vector<fs::path> roots;
  const fs::path shared = fs::weakly_canonical(GANTRY_SOURCE_DIR).parent_path() / "shared" / "onnx-1.22";
  for (const fs::path& base : {shared, fs::path(kDebianData)}) {
    for (const char* folder : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
      if (fs::is_directory(base / folder)) roots.push_back(base / folder);
    }
  }
  return roots;
}

ConstantPtr read_tensor_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  auto tensor = std::make_shared<onnx::TensorProto>();
  if (!tensor->ParseFromString(text.str())) return nullptr;
  return TensorReader(tensor, path.parent_path()).read(*tensor, path.string());
}

std::optional<std::vector<ConstantPtr>> read_tensors(const fs::path& data_set, const std::string& prefix) {
  std::vector<ConstantPtr> tensors;
  for (int i = 0;; ++i) {
    fs::path path = data_set / fmt::format("{}_{}.pb", prefix, i);
    if (!fs::exists(path)) return tensors;
    try {
      tensors.push_back(read_tensor_file(path));
    } catch (const std::exception&) {
      return std::nullopt;
    }
    if (!tensors.back()) return std::nullopt;
  }
}

std::vector<std::string> input_names(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  onnx::ModelProto model;
  std::vector<std::string> names;
  if (!model.ParseFromIstream(&file)) return names;
  std::set<std::string> initialised;
  for (const auto& tensor : model.graph().initializer()) initialised.insert(tensor.name());
  for (const auto& input : model.graph().input()) {
    if (initialised.count(input.name()) == 0) names.push_back(input.name());
  }
  return names;
}

namespace {

double from_half(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}
double from_bfloat(uint16_t bits) {
  uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

double element(const ConstantData& c, size_t i) {
  switch (c.type.dtype) {
    case DType::kF32:
      return c.as<float>()[i];
    case DType::kF64:
      return c.as<double>()[i];
    case DType::kF16:
      return from_half(c.as<uint16_t>()[i]);
    case DType::kBF16:
      return from_bfloat(c.as<uint16_t>()[i]);
    case DType::kI8:
      return c.as<int8_t>()[i];
    case DType::kI16:
      return c.as<int16_t>()[i];
    case DType::kI32:
      return c.as<int32_t>()[i];
    case DType::kI64:
      return static_cast<double>(c.as<int64_t>()[i]);
    case DType::kU8:
      return c.as<uint8_t>()[i];
    case DType::kU16:
      return c.as<uint16_t>()[i];
    case DType::kU32:
      return c.as<uint32_t>()[i];
    case DType::kU64:
      return static_cast<double>(c.as<uint64_t>()[i]);
    case DType::kBool:
      return c.as<uint8_t>()[i];
  }
  return NAN;
}

}  // namespace

std::string difference(const ConstantData& actual, const ConstantData& expected) {
  if (!(actual.type == expected.type))
    return fmt::format("{} instead of {}", actual.type.str(), expected.type.str());
  size_t count = expected.size / static_cast<size_t>(byte_width(expected.type.dtype));
  for (size_t i = 0; i < count; ++i) {
    double a = element(actual, i), e = element(expected, i);
    bool same = a == e || (std::isnan(a) && std::isnan(e)) || std::abs(a - e) <= 1e-7 + 1e-3 * std::abs(e);
    if (!same) return fmt::format("element {} is {} instead of {}", i, a, e);
  }
  return "";
}

}  // namespace gantry::conformance
