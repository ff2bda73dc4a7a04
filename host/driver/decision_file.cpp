#include "host/driver/decision_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "host/graph/text.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/support/suggest.h"
#include "host/support/words.h"

namespace gantry {
namespace {

/// Of "network {form=combined}" what stands behind the first word; none of the line of a node.
std::optional<std::string_view> behind_network(std::string_view line) {
  constexpr std::string_view kNetwork = "network";
  if (!line.starts_with(kNetwork)) return std::nullopt;
  const std::string_view rest = line.substr(kNetwork.size());
  return rest.empty() || rest.front() == ' ' || rest.front() == '\t' || rest.front() == '{' ? std::optional(rest)
                                                                                            : std::nullopt;
}

/// Whether products are combined.
bool parse_of_network(std::string_view text) {
  const size_t comment = std::min(text.find("//"), text.size());
  const Decision decision = parse_decision(text.substr(0, comment));
  if (!decision.knobs.empty() || (decision.form != "combined" && decision.form != "separate"))
    user_error("a network is {{form=combined}}, products of the same data as one, or {{form=separate}}, not {}",
               to_string(decision));
  return decision.form == "combined";
}

/// "nn.conv {form=direct, block=32}  // Conv_0".
NodeDecision parse_line(std::string_view line) {
  const size_t brace = line.find('{'), end = line.find('}');
  if (brace == std::string_view::npos || end == std::string_view::npos || end < brace)
    user_error("expected an op and a decision, such as: nn.conv {{form=direct, block=32}}  // Conv_0");
  NodeDecision node;
  const std::string op(trim(line.substr(0, brace)));
  node.op = op_set().find(op);
  if (node.op == nullptr) user_error("there is no op '{}'{}", op, did_you_mean(op, op_set().names()));
  node.decision = parse_decision(line.substr(brace, end + 1 - brace));
  const std::string_view rest = trim(line.substr(end + 1));
  if (!rest.empty() && !rest.starts_with("//"))
    user_error("behind a decision stand // and names of nodes, not '{}'", rest);
  if (!rest.empty()) node.origin = parse_origin(rest.substr(2));
  return node;
}

}  // namespace

std::string decision_line(const NodeDecision& node) {
  const std::string origin = origin_text(node.origin);
  return fmt::format("{} {}{}{}", node.op->name, to_string(node.decision), origin.empty() ? "" : "  // ", origin);
}

std::string decisions_text(const std::string& target, const std::vector<NodeDecision>& decisions, bool combined) {
  std::string text = fmt::format("[{}]\n", target);
  if (combined) text += fmt::format("{}\n", kCombinedLine);
  for (const NodeDecision& node : decisions) text += decision_line(node) + "\n";
  return text;
}

DecisionFile DecisionFile::parse(std::string_view text, const std::string& file) {
  DecisionFile result;
  std::string target;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::string place = fmt::format("{}:{}", file, number);
    if (line.front() == '[' && line.back() == ']') {
      target = trim(line.substr(1, line.size() - 2));
      continue;
    }
    try {
      if (const auto rest = behind_network(line)) {
        result.of_network_.push_back({target, parse_of_network(*rest)});
      } else {
        result.entries_.push_back({target, {parse_line(line), place}});
      }
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", place, error.what()));
    }
  }
  return result;
}

GivenDecisions DecisionFile::for_target(const std::string& name) const {
  std::vector<GivenDecisions::Line> lines;
  for (const Entry& entry : entries_) {
    if (entry.target.empty() || entry.target == name) lines.push_back(entry.line);
  }
  return GivenDecisions(std::move(lines));
}

bool DecisionFile::combines_products(const std::string& name) const {
  bool combined = false;
  for (const NetworkEntry& entry : of_network_)
    if (entry.target.empty() || entry.target == name) combined = entry.combined;
  return combined;
}

}  // namespace gantry
