#include "tests/support/compiled_model.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <stdexcept>

#include "host/codegen/find_target.h"
#include "host/compiler/string_tensors.h"

namespace gantry::testing {

std::vector<std::byte> compile_to_bytes(const Graph& graph, const CompileSettings& settings) {
  CompileOptions options;
  options.targets = {find_target(settings.target)};
  options.opt_level = settings.opt_level;
  options.threads = settings.threads;
  options.precision = find_precision(settings.precision);
  options.verify = true;
  ModuleFile module = compile_graph(graph, options);
  return serialize_module(module);
}

bool runs_here(const std::string& target) {
#ifdef __x86_64__
  if (target == "x86-64-v4") return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  return target != "x86-64-v3" || (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#else
  return !target.starts_with("x86-64");
#endif
}

std::vector<ConstantPtr> run_on_board(rpc::BoardClient& board, const std::vector<std::byte>& module_file,
                                      const std::vector<ConstantPtr>& inputs, int threads) {
  const rpc::LoadedModule module = board.load(board.upload(std::span(module_file)), {.threads = threads});
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ConstantData& input = *inputs[i];
    const DLDataType type = to_dlpack(input.type.dtype);
    const std::vector<int64_t> shape = *constant_shape(input.type.shape);
    const bool is_strings = input.type.dtype == DType::kString;
    const std::vector<std::byte> packed = is_strings ? packed_strings(input) : std::vector<std::byte>();
    board.set_input(module.handle, static_cast<int32_t>(i), {type.code, type.bits}, shape,
                    is_strings ? std::span<const std::byte>(packed) : std::span(input.bytes, input.size));
  }
  board.run(module.handle);
  std::vector<ConstantPtr> outputs;
  for (size_t i = 0; i < module.outputs.size(); ++i) {
    const rpc::Tensor output = board.get_output(module.handle, static_cast<int32_t>(i));
    const bool is_strings = output.type.code == kDLOpaqueHandle;
    outputs.push_back(
        is_strings ? string_constant({output.shape.begin(), output.shape.end()}, output.bytes)
                   : to_constant(output.type.code, output.type.bits, output.shape, output.bytes.data()));
  }
  board.unload(module.handle);
  return outputs;
}

std::optional<std::string> emulated_board_program() {
  namespace fs = std::filesystem;
  for (const char* qemu : {"/usr/bin/qemu-aarch64", "/usr/bin/qemu-aarch64-static"}) {
    const fs::path device = fs::weakly_canonical(GANTRY_SOURCE_DIR) / "build-aarch64/bin/gantry-device";
    if (fs::exists(qemu) && fs::exists(device)) return std::string(qemu) + " " + device.string();
  }
  return std::nullopt;
}

EmulatedBoard::EmulatedBoard() : server_({}, emulated_board_program().value()) {
  rpc::ConnectOptions options;
  options.address = server_.address();
  options.connect_timeout = std::chrono::seconds(30);  // emulation is slow
  client_ = rpc::BoardClient::connect(options);
}

ConstantPtr ramp(const std::vector<int64_t>& shape) {
  std::byte* bytes = nullptr;
  auto tensor = allocate_constant({DType::kF32, Shape(shape.begin(), shape.end())}, &bytes);
  const size_t count = tensor->size / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    reinterpret_cast<float*>(bytes)[i] =
        static_cast<float>(static_cast<double>(i) / static_cast<double>(count));
  }
  return tensor;
}

ConstantPtr random_tensor(DType dtype, const std::vector<int64_t>& shape, uint64_t seed) {
  std::byte* bytes = nullptr;
  auto tensor = allocate_constant({dtype, Shape(shape.begin(), shape.end())}, &bytes);
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < tensor->size / static_cast<size_t>(byte_width(dtype)); ++i) {
    if (dtype == DType::kF32) {
      reinterpret_cast<float*>(bytes)[i] =
          static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1);
    } else if (dtype == DType::kI64) {
      reinterpret_cast<int64_t*>(bytes)[i] = static_cast<int64_t>(random() % 97);
    } else {
      throw std::runtime_error("random_tensor makes f32 and i64 only");
    }
  }
  return tensor;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
double relative_error_of(const float* actual, const T* expected, size_t count) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const double a = actual[i], e = expected[i];
    if (std::isnan(a) && std::isnan(e)) continue;
    if (!std::isfinite(a) || !std::isfinite(e)) {
      if (a != e) return kInfinity;
      continue;
    }
    difference = std::max(difference, std::abs(a - e));
    largest = std::max(largest, std::abs(e));
  }
  if (difference == 0) return 0;
  return largest > 0 ? difference / largest : kInfinity;
}

}  // namespace

double relative_error(const ConstantData& actual, const ConstantData& expected) {
  if (!(actual.type == expected.type) || expected.type.dtype != DType::kF32) return kInfinity;
  return relative_error_of(actual.as<float>(), expected.as<float>(), expected.size / sizeof(float));
}

double relative_error(const ConstantData& actual, const std::vector<double>& expected) {
  if (actual.type.dtype != DType::kF32 || actual.size != expected.size() * sizeof(float)) return kInfinity;
  return relative_error_of(actual.as<float>(), expected.data(), expected.size());
}

}  // namespace gantry::testing
