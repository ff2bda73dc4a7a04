// What became of one test.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/conformance/value.h"

namespace gantry::conformance {

enum class Status : uint8_t {
  kPass,
  kWrong,        ///< it ran, and an output is not the expected one
  kUnsupported,  ///< the program refused it and said why
  kCrash,        ///< a process died of it, or found a bug in itself
  kTimeout,
};
inline constexpr Status kStatuses[] = {Status::kPass, Status::kWrong, Status::kUnsupported, Status::kCrash,
                                       Status::kTimeout};
/// "pass", "wrong", …
std::string_view name_of(Status status);

struct TestResult {
  std::string name;
  std::string folder;
  std::string operator_name;  ///< as TestModel has it
  int64_t opset = 0;
  Status status = Status::kPass;
  /// What was being done when it ended otherwise than with a pass: "import", "compile", "load", "data",
  /// "run", "compare".
  std::string phase;
  std::string reason;                 ///< for people; empty where it passed
  std::vector<std::string> features;  ///< what is not supported, in few words: "op: NonZero (opset 16)"
  int signal = 0;                     ///< that a process died of; 0: none, or not known
  std::string output;                 ///< the wrong one's name
  std::string data_set;               ///< the folder's name, of what is wrong
  std::optional<Wrong> wrong;
  double seconds = 0;

  bool passed() const { return status == Status::kPass; }
};

nlohmann::ordered_json to_json(const TestResult& result);
/// The result that to_json() wrote; nothing where the JSON is none.
std::optional<TestResult> result_from_json(const nlohmann::ordered_json& json);

}  // namespace gantry::conformance
