// What the run has found so far: one JSON document, and a Markdown table made of it. Both files are whole at
// any moment, as they are written beside their names and renamed.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "benchmarks/gpu/child.h"

namespace gantry::gpu_bundle {

using Json = nlohmann::ordered_json;

/// The document: {"schema", "command", "seconds", "elapsed_s", "state", "sections": [{"name", "title",
/// "state", "steps", "done", "facts": {…}, "rows": [{"name", "result", "text", …}]}]}. `state` of the whole:
/// "running" (or cut off), "done", "stopped by …"; of a section: "not reached", "running", "done", "cut off",
/// "not selected". `steps`: how many it has, null where that is not known yet; a section that is not done has
/// not reached the rest.
class Report {
 public:
  /// Makes the folder. Throws std::runtime_error if that cannot be written to.
  Report(std::filesystem::path folder, double seconds, const std::vector<std::string>& command);

  void add_section(const std::string& name, const std::string& title, const std::string& state);
  void set_state(const std::string& section, const std::string& state);
  void set_steps(const std::string& section, size_t count);
  /// How many have been counted by row(); set back where one is done again.
  int done(const std::string& section);
  void set_done(const std::string& section, int count);
  /// What the section found that is no row.
  Json& facts(const std::string& section);

  /// Adds the row of that name, or adds to it, and counts a step. Prints `line` where there is one. The files
  /// follow at once, or, of steps that take less than that, within half a second.
  void row(const std::string& section, const std::string& name, const Json& fields,
           const std::string& line = "");

  /// "[ 12.3 s] text" on stdout.
  void print(const std::string& text) const;
  /// The whole run's state, and both files.
  void finish(const std::string& state);
  void write();
  const Json& document() const { return document_; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  Json& section(const std::string& name);
  std::filesystem::path folder_;
  Clock::time_point start_ = Clock::now(), written_{};
  Json document_;
};

/// The document as Markdown: a row a section, then each section's own table.
std::string markdown(const Json& document);

}  // namespace gantry::gpu_bundle
