// What a program did that a test has run.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace gantry::testing {

struct Outcome {
  int code = -1;   ///< the exit code; -1 if a signal ended it
  int signal = 0;  ///< the signal that ended it
  std::string out, err;
};

/// The bytes of a file; none where there is none.
inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace gantry::testing
