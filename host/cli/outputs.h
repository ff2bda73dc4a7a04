// The files of one command: what it writes is checked before its work starts, and is never what it reads.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "host/cli/file_kind.h"

namespace CLI {
class App;
}

namespace gantry::cli {

/// A command tells it every file that it reads and writes, as soon as it knows of it, in any order.
///
///   invocation.outputs->reads(options.model, "the model");
///   invocation.outputs->writes(options.json_file, FileKind::kResult, "--json", options.force);
///   … minutes of work …
///   write_file(options.json_file, json);
class OutputPlan {
 public:
  /// `what`: "the model", "the key". A file that is not there is left to whoever reads it. User error if an
  /// output is the same file, by whatever name or link.
  void reads(const std::filesystem::path& path, const std::string& what);

  /// An output of that kind, given by `option` ("-o"). User errors: it cannot be written (see
  /// check_can_write), or is called "-"; it is an input or another output of this command; it exists and is
  /// neither empty nor of that kind, or is a key, which are never replaced: `force` lets them be. Devices,
  /// pipes and open descriptors are of every kind; stdout takes one output.
  void writes(const std::filesystem::path& path, FileKind kind, const std::string& option, bool force);

  /// The command's report goes to stdout, as `option` ("--json") asks. User error if an output is stdout
  /// itself, by a name such as /dev/stdout: a reader could not tell the one from the other.
  void reports(const std::string& option);

  /// The output that is stdout itself, as it was given: "-o /dev/stdout". Empty: none is.
  const std::string& on_stdout() const { return on_stdout_; }

 private:
  struct File {
    std::string path, what;  ///< what: "the model"; of an output: "-o x.gmod"
    bool exists = false;
    dev_t device = 0;  ///< the file's; of one that is not there yet: its folder's
    ino_t inode = 0;   ///< likewise
    std::string name;  ///< of one that is not there yet
    bool same_as(const File& other) const;
  };

  void check_stdout() const;

  std::vector<File> inputs_, outputs_;
  std::string on_stdout_;  ///< as on_stdout()
  std::string report_;     ///< the option that asks for the report on stdout; empty: none
};

/// --force, of the commands that write files.
void add_force_option(CLI::App& command, bool& force);

/// Takes every step even where an earlier one fails, then throws the first error: a result that took minutes
/// is shown whatever happens to its file.
void take_all_steps(std::initializer_list<std::function<void()>> steps);

}  // namespace gantry::cli
