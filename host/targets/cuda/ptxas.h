// NVIDIA's assembler, as a child process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantry::cuda {

/// Looked for in the environment variable GANTRY_PTXAS (a path; "none": not used), PATH, CUDA_HOME/bin,
/// CUDA_PATH/bin and /usr/local/cuda/bin. A user error if GANTRY_PTXAS names no program.
std::optional<std::filesystem::path> find_ptxas();
/// What it says of itself: "12.4, V12.4.131"; "" where it does not answer as NVIDIA's does.
std::string ptxas_version(const std::filesystem::path& program);

struct PtxasResult {
  enum class Outcome { kAssembled, kUnknownArchitecture, kFailed } outcome = Outcome::kFailed;
  std::vector<std::byte> cubin;
  std::string messages;  ///< what it wrote: statistics of each entry, or errors
};
/// Assembles the text for `arch` ("sm_80"), in a temporary folder that is gone afterwards. kFailed: its
/// messages have an error. A user error where it cannot be run, a signal ends it, or it leaves neither code
/// nor an error; a Shortage where the folder's disk is full, whatever it says of that.
PtxasResult run_ptxas(const std::filesystem::path& program, const std::string& ptx, const std::string& arch,
                      int threads);
/// The first line of its messages that tells of an error; empty if none does.
std::string_view first_error(std::string_view messages);

}  // namespace gantry::cuda
