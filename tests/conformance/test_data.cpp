#include "tests/conformance/test_data.h"

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

}  // namespace gantry::conformance
