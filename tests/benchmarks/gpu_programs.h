// The GPU bundle's programs as processes, with cases of their own and the stand-in for NVIDIA's driver.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "benchmarks/gpu/child.h"
#include "benchmarks/gpu/context.h"
#include "tests/support/server_process.h"

namespace gantry::gpu_bundle {

inline std::string program(const std::string& name) {
  return std::string(GANTRY_BIN_DIR) + "/" + name;
}

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Of the stand-in's GPU: little is copied in little time.
constexpr const char* kLittleMemory = "FAKE_CUDA_MEMORY=67108864";

/// Finds the stand-in before any driver of this machine.
inline std::vector<std::string> with_stand_in() {
  return {"LD_LIBRARY_PATH=" + std::filesystem::path(GANTRY_FAKE_CUDA).parent_path().string(), kLittleMemory};
}

/// The pack of gpu_cases.txt, and how making it has ended.
struct PackedCases {
  std::filesystem::path path;
  Outcome outcome;
  /// A machine without ONNX's test data; everything else that fails is a fault.
  bool lacks_data() const { return outcome.errors.find("libonnx-testdata") != std::string::npos; }
};

/// Made once for all tests of the process.
inline const PackedCases& packed_cases() {
  static testing::TemporaryDirectory folder;
  static const PackedCases pack = [] {
    const std::filesystem::path path = folder.path() / "cases.pack";
    return PackedCases{
        path,
        run({{program("gpu_pack_cases"), path.string(), "--list", GANTRY_CASE_LIST}, {}, Seconds(300)})};
  }();
  return pack;
}

}  // namespace gantry::gpu_bundle
