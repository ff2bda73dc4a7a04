// A run of tests as a document, written while it goes on and read by a run that goes on from there.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "host/conformance/result.h"

namespace gantry::conformance {

/// What all tests of a run have in common. Results of unlike settings are not of one run.
struct RunSettings {
  std::string gantry;  ///< the program's version and commit
  std::string target;  ///< as it was compiled for: "x86-64-v4"
  std::string device;  ///< "cpu", "cuda-emulated", …
  std::string board;   ///< as it was given; "": this machine
  int opt_level = 3;
  std::string precision;  ///< "auto", …
  double timeout_seconds = 0;
};

struct RunRecord {
  RunSettings settings;
  std::vector<std::string> folders;
  std::vector<std::string> filters;
  int64_t tests_found = 0;          ///< that were to run
  std::vector<TestResult> results;  ///< of those that have run, by name
};

/// docs/conformance.schema.json says what is in it.
nlohmann::ordered_json to_json(const RunRecord& record);

/// User errors name the file: it cannot be read, is no such document, or is of another version.
RunRecord read_record(const std::filesystem::path& file);
/// "" where results of both may stand in one document, else what differs: "target: x86-64-v3 and x86-64-v4".
/// Another build of the program does not count.
std::string settings_difference(const RunSettings& before, const RunSettings& now);

/// Keeps a file up to date: whole at any time, at most about a second behind, so that whatever ends the
/// program leaves a document that can be read and gone on from. A device, a pipe or an open descriptor takes
/// only what write() is given.
class RecordFile {
 public:
  /// "": there is none.
  explicit RecordFile(std::filesystem::path file);
  /// Whether it is a file, from which a later run can go on.
  bool is_kept() const { return is_kept_; }
  /// Writes where it is kept and the last time is long enough ago. User error where it cannot be written.
  void update(const RunRecord& record);
  /// Writes, once of one run where it is not kept. User error likewise.
  void write(const RunRecord& record);

 private:
  std::filesystem::path file_;
  bool is_kept_ = false;
  std::chrono::steady_clock::time_point written_{};
  std::chrono::steady_clock::duration took_{};
};

}  // namespace gantry::conformance
