#include "host/cli/outputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

/// Whether a file of kind `there` may be replaced by one of kind `kind` without being asked.
bool may_replace(FileKind there, FileKind kind) {
  if (there == FileKind::kEmpty) return true;
  return there == kind && kind != FileKind::kKey;
}

/// As the user gave it: "-o x.gmod".
std::string label(const std::string& option, const std::filesystem::path& path) {
  return option.empty() ? path.string() : option + " " + path.string();
}

void check_kind(const std::filesystem::path& path, FileKind there, FileKind kind, const std::string& option) {
  if (may_replace(there, kind)) return;
  if (there == FileKind::kKey && kind == FileKind::kKey) {
    user_error(
        "{}: is a key already, and boards that have it would be lost; give another name, or --force to "
        "replace it",
        path.string());
  }
  user_error("{}: is there already and is {}, not {}; give another path, or --force to replace it",
             label(option, path), describe(there), describe(kind));
}

}  // namespace

bool OutputPlan::File::same_as(const File& other) const {
  return exists == other.exists && device == other.device && inode == other.inode && name == other.name;
}

void OutputPlan::reads(const std::filesystem::path& path, const std::string& what) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISCHR(status.st_mode)) return;
  File input{path.string(), what, true, status.st_dev, status.st_ino, {}};
  for (const File& output : outputs_) {
    if (!output.same_as(input)) continue;
    user_error("{}: would replace {} {}; give another path", output.what, what, input.path);
  }
  inputs_.push_back(std::move(input));
}

void OutputPlan::writes(const std::filesystem::path& path, FileKind kind, const std::string& option,
                        bool force) {
  if (path == "-") {
    user_error("{}: '-' is no file; /dev/stdout is standard output, ./- a file of that name",
               label(option, path));
  }
  check_can_write(path);
  const OutputTarget target = find_output_target(path);
  File output{path.string(), label(option, path), true, target.status.st_dev, target.status.st_ino, {}};
  if (target.kind == OutputTarget::Kind::kNew) {
    const std::filesystem::path folder = target.path.has_parent_path() ? target.path.parent_path() : ".";
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) user_error("{}: its folder is gone", path.string());
    output = {path.string(), label(option, path), false,
              status.st_dev, status.st_ino,       target.path.filename().string()};
  }
  for (const File& input : inputs_) {
    if (!input.same_as(output)) continue;
    user_error("{}: would replace {} {}; give another path", output.what, input.what, input.path);
  }
  if (target.kind == OutputTarget::Kind::kDescriptor && target.descriptor == STDOUT_FILENO) {
    if (!on_stdout_.empty())
      user_error("{}: is the same file as {}; give another path", output.what, on_stdout_);
    on_stdout_ = output.what;
    check_stdout();
  }
  if (target.is_stream()) return;
  for (const File& other : outputs_) {
    if (!other.same_as(output)) continue;
    user_error("{}: is the same file as {}; give another path", output.what, other.what);
  }
  if (target.kind == OutputTarget::Kind::kFile && !force)
    check_kind(path, kind_of_file(target.path), kind, option);
  outputs_.push_back(std::move(output));
}

void OutputPlan::reports(const std::string& option) {
  report_ = option;
  check_stdout();
}

void OutputPlan::check_stdout() const {
  if (on_stdout_.empty() || report_.empty()) return;
  user_error("{}: is stdout, where the report of {} goes; give another path, or leave out {}", on_stdout_,
             report_, report_);
}

void add_force_option(CLI::App& command, bool& force) {
  command.add_flag("--force", force,
                   "Replace a file that is there already and is no earlier output of this kind");
}

void take_all_steps(std::initializer_list<std::function<void()>> steps) {
  std::exception_ptr first;
  for (const auto& step : steps) {
    try {
      step();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace gantry::cli
