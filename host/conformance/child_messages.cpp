#include "host/conformance/child_messages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "host/support/error.h"
#include "rpc/signal_name.h"

namespace gantry::conformance {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kUnreachable = static_cast<int>(ErrorKind::kBoard);
constexpr int kSignalled = 128;
/// ChildPipes cuts lines that are longer than 64 KiB.
constexpr size_t kMostOfReason = size_t{16} << 10;
constexpr size_t kMostFeatures = 100;

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Of what it said last.
std::string last_line(std::string words) {
  while (!words.empty() && words.back() == '\n') words.pop_back();
  const size_t end = words.rfind('\n');
  return end == std::string::npos ? words : words.substr(end + 1);
}

struct Said {
  std::string phase = "start";
  std::optional<TestResult> result;
};

Said read_lines(const std::vector<std::string>& lines) {
  Said said;
  for (const std::string& line : lines) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    if (json.contains("phase") && json["phase"].is_string()) said.phase = json["phase"];
    if (json.contains("result") && !said.result) said.result = result_from_json(json["result"]);
  }
  return said;
}

}  // namespace

std::string phase_line(const std::string& phase) {
  return line_of({{"phase", phase}});
}

std::string result_line(const TestResult& result) {
  TestResult shorter = result;
  if (shorter.reason.size() > kMostOfReason) shorter.reason.resize(kMostOfReason);
  if (shorter.features.size() > kMostFeatures) shorter.features.resize(kMostFeatures);
  return line_of({{"result", to_json(shorter)}});
}

std::optional<TestResult> judge(const ChildEnd& end, const TestResult& test) {
  Said said = read_lines(end.lines);
  if (!said.result && !end.killed && end.exit_code == kUnreachable) return std::nullopt;
  TestResult result = said.result ? *said.result : test;
  result.name = test.name;
  result.folder = test.folder;
  result.operator_name = test.operator_name;
  result.opset = test.opset;
  result.seconds = end.seconds;
  if (said.result) return result;
  result.phase = said.phase;
  result.status = end.killed ? Status::kTimeout : Status::kCrash;
  result.signal = !end.killed && end.exit_code > kSignalled ? end.exit_code - kSignalled : 0;
  const std::string how = end.killed ? "took too long"
                          : result.signal != 0
                              ? "was ended by " + rpc::signal_name(result.signal)
                              : fmt::format("ended with exit code {} and no result", end.exit_code);
  const std::string words = last_line(end.words);
  result.reason =
      fmt::format("the program {} in phase {}{}{}", how, said.phase, words.empty() ? "" : ": ", words);
  return result;
}

}  // namespace gantry::conformance
