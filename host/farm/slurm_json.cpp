#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "host/farm/slurm.h"
#include "rpc/visible_text.h"

namespace gantry::farm {
namespace {

using Json = nlohmann::json;

/// What later versions may leave out, or give as null; of a list, as which they give states, the first.
std::string text(const Json& object, const char* field) {
  const auto value = object.find(field);
  if (value == object.end()) return "";
  const Json& one = value->is_array() && !value->empty() ? value->front() : *value;
  return one.is_string() ? one.get<std::string>() : "";
}
/// Later versions write {"set": true, "number": 7}.
int64_t number(const Json& object, const char* field) {
  const auto value = object.find(field);
  if (value == object.end()) return 0;
  if (value->is_object()) return number(*value, "number");
  return value->is_number_integer() ? value->get<int64_t>() : 0;
}

/// With a question mark for each byte that is no UTF-8, which no JSON has: names and comments of jobs are
/// bytes that users gave, and Slurm prints them as they are.
std::string of_characters(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const rpc::CodePoint point = rpc::first_code_point(text);
    out += point.valid ? text.substr(0, point.bytes) : std::string_view("?");
    text.remove_prefix(point.bytes);
  }
  return out;
}

Json parse(std::string_view json, const char* list) {
  Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded())
    document = Json::parse(of_characters(json), nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains(list) || !document[list].is_array())
    throw SlurmError(std::string("Slurm's JSON has no list '") + list +
                         "': gantry reads that of Slurm 22.05 and the like; see `squeue --version`",
                     false);
  const auto errors = document.find("errors");
  if (errors != document.end() && errors->is_array() && !errors->empty()) {
    const Json& first = errors->front();
    const std::string said = first.is_object() ? text(first, "description") : "";
    throw SlurmError(
        fmt::format("Slurm's controller gives no list of {}{}{}; `scontrol ping` says whether it runs", list,
                    said.empty() ? "" : ": ", said),
        true);
  }
  return document;
}

JobPhase phase_of(const std::string& state) {
  if (state == "PENDING" || state == "CONFIGURING" || state == "REQUEUED" || state == "REQUEUE_HOLD" ||
      state == "SUSPENDED")
    return JobPhase::kPending;
  return state == "RUNNING" ? JobPhase::kRunning : JobPhase::kEnded;
}

}  // namespace

std::map<std::string, int> parse_resources(std::string_view resources) {
  std::map<std::string, int> counts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= resources.size(); ++i) {
    const char c = i < resources.size() ? resources[i] : ',';
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c != ',' || (depth > 0 && i < resources.size())) continue;
    std::string_view entry = resources.substr(begin, i - begin);
    begin = i + 1;
    entry = entry.substr(0, entry.find('('));
    if (entry.starts_with("gres:")) entry.remove_prefix(5);
    const size_t first = entry.find(':'), last = entry.rfind(':');
    if (entry.substr(0, first) != kBoardResource || first == last) continue;
    int count = 0;
    const std::string_view digits = entry.substr(last + 1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), count).ec == std::errc())
      counts[std::string(entry.substr(first + 1, last - first - 1))] += count;
  }
  return counts;
}

std::vector<Job> parse_leases(std::string_view json) {
  const Json document = parse(json, "jobs");
  std::vector<Job> jobs;
  for (const Json& entry : document["jobs"]) {
    if (!entry.is_object() || text(entry, "name") != kLeaseJob) continue;
    Job job;
    job.id = static_cast<JobId>(number(entry, "job_id"));
    job.state = text(entry, "job_state");
    if (job.state.empty())
      throw SlurmError("Slurm's JSON gives a job no state: gantry reads that of Slurm 22.05 and the like", false);
    job.phase = phase_of(job.state);
    job.reason = text(entry, "state_reason");
    job.comment = text(entry, "comment");
    job.user = text(entry, "user_name");
    job.node = text(entry, "nodes");
    job.board = text(entry, "tres_per_node");
    job.unit = text(entry, "gres_detail");
    job.submitted = number(entry, "submit_time");
    job.started = number(entry, "start_time");
    job.ends = number(entry, "end_time");
    job.minutes = static_cast<int>(number(entry, "time_limit"));
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::vector<NodeBoards> parse_boards(std::string_view json) {
  const Json document = parse(json, "nodes");
  std::vector<NodeBoards> nodes;
  for (const Json& entry : document["nodes"]) {
    if (!entry.is_object()) continue;
    NodeBoards node{text(entry, "name"), text(entry, "state"), text(entry, "reason"), {}};
    if (const std::string flag = text(entry, "state_flags"); !flag.empty()) node.state += "+" + flag;
    for (const auto& [type, count] : parse_resources(text(entry, "gres"))) node.boards[type].first = count;
    for (const auto& [type, count] : parse_resources(text(entry, "gres_used")))
      node.boards[type].second = count;
    if (!node.boards.empty()) nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace gantry::farm
