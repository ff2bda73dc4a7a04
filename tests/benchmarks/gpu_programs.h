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

/// The pack of gpu_cases.txt, made once for all tests of the process; empty where ONNX's test data is not
/// there.
inline const std::filesystem::path& packed_cases() {
  static testing::TemporaryDirectory folder;
  static const std::filesystem::path pack = [] {
    const std::filesystem::path path = folder.path() / "cases.pack";
    const Outcome outcome =
        run({{program("gpu_pack_cases"), path.string(), "--list", GANTRY_CASE_LIST}, {}, Seconds(300)});
    return outcome.ok() ? path : std::filesystem::path();
  }();
  return pack;
}

}  // namespace gantry::gpu_bundle
