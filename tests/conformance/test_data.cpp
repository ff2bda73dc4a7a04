#include "tests/conformance/test_data.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

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
  const fs::path shared = fs::weakly_canonical(GANTRY_SOURCE_DIR).parent_path() / "shared";
  for (const fs::path& base : {shared / "onnx-1.23", shared / "onnx-1.22", fs::path(kDebianData)}) {
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

}  // namespace gantry::conformance
