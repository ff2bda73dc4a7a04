// The gantry program as a child process, in folders of its own.
#pragma once

#include <string>
#include <vector>

#include "tests/cli/outcome.h"
#include "tests/support/server_process.h"

namespace gantry::testing {

/// Names of files and folders below it, relative to it, in order.
std::vector<std::string> files_below(const std::filesystem::path& folder);

/// A working folder, a TMPDIR, a cache and a configuration that nobody else uses.
class GantryFolders {
 public:
  GantryFolders();

  std::filesystem::path work() const { return root_.path() / "work"; }
  std::filesystem::path temporary() const { return root_.path() / "tmp"; }
  std::filesystem::path cache() const { return root_.path() / "cache"; }
  std::filesystem::path path(const std::string& name) const { return work() / name; }
  std::filesystem::path write(const std::string& name, const std::string& bytes) const;

  /// Starts it in work(), with its streams in files unless `stdout_descriptor` says where stdout goes. It
  /// dies with the test, and after two minutes. `ignored`: a signal that it finds ignored.
  int start(const std::vector<std::string>& arguments, int stdout_descriptor = -1, int ignored = 0) const;
  Outcome wait(int pid) const;
  Outcome run(const std::vector<std::string>& arguments, int stdout_descriptor = -1) const {
    return wait(start(arguments, stdout_descriptor));
  }

 private:
  TemporaryDirectory root_;
};

}  // namespace gantry::testing
