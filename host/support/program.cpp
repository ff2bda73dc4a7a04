#include "host/support/program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace gantry {

namespace fs = std::filesystem;

namespace {

std::vector<std::string>& chosen_own_command() {
  static std::vector<std::string> words;
  return words;
}

fs::path& chosen_own_folder() {
  static fs::path folder;
  return folder;
}

/// The program's file.
fs::path own_program() {
  std::error_code code;
  return fs::read_symlink("/proc/self/exe", code);
}

}  // namespace

bool is_program(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code) && access(path.c_str(), X_OK) == 0;
}

std::optional<fs::path> find_program(const std::string& name) {
  const char* value = std::getenv("PATH");
  const std::string path = value != nullptr ? value : "";
  for (size_t start = 0; start < path.size();) {
    const size_t end = std::min(path.find(':', start), path.size());
    if (end > start) {
      const fs::path candidate = fs::path(path.substr(start, end - start)) / name;
      if (is_program(candidate)) return candidate;
    }
    start = end + 1;
  }
  return std::nullopt;
}

std::vector<std::string> own_command() {
  if (!chosen_own_command().empty()) return chosen_own_command();
  return {own_program().string()};
}

void use_own_command(std::vector<std::string> words) {
  chosen_own_command() = std::move(words);
}

fs::path own_folder() {
  return chosen_own_folder().empty() ? own_program().parent_path() : chosen_own_folder();
}

void use_own_folder(fs::path folder) {
  chosen_own_folder() = std::move(folder);
}

}  // namespace gantry
