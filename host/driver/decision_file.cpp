#include "host/driver/decision_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "host/codegen/find_target.h"
#include "host/graph/text.h"
#include "host/machine/target.h"
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

constexpr std::string_view kArrow = "->";

const OpBase* find_op(std::string_view name) {
  const std::string op(name);
  const OpBase* found = op_set().find(op);
  if (found == nullptr) user_error("there is no op '{}'{}", op, did_you_mean(op, op_set().names()));
  return found;
}

/// As origin_text(), so that the arrow between two of them is the first one outside of quotes.
std::string origin_beside_arrow(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : ", ") +
            (name.find(kArrow) == std::string::npos ? origin_text({name}) : quote(name));
  return text;
}

/// The place of the arrow; npos where there is none.
size_t find_arrow(std::string_view text) {
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text.substr(i).starts_with(kArrow)) {
      return i;
    }
  }
  return std::string_view::npos;
}

/// "nn.conv nn.relu  // stem.conv -> stem.relu".
Separation parse_separation(std::string_view text) {
  const size_t comment = text.find("//");
  const std::string_view ops = trim(text.substr(0, std::min(comment, text.size())));
  const size_t blank = ops.find_first_of(" \t");
  const std::string_view names = comment == std::string_view::npos ? "" : text.substr(comment + 2);
  const size_t arrow = find_arrow(names);
  if (blank == std::string_view::npos || arrow == std::string_view::npos)
    user_error(
        "behind {{form=apart}} stand two ops and their nodes, such as: nn.conv nn.relu  // stem.conv -> "
        "stem.relu");
  Separation edge;
  edge.maker = {find_op(ops.substr(0, blank)), parse_origin(names.substr(0, arrow))};
  edge.reader = {find_op(trim(ops.substr(blank))), parse_origin(names.substr(arrow + kArrow.size()))};
  return edge;
}

/// "nn.conv {form=direct, block=32}  // Conv_0".
NodeDecision parse_line(std::string_view line) {
  const size_t brace = line.find('{'), end = line.find('}');
  if (brace == std::string_view::npos || end == std::string_view::npos || end < brace)
    user_error("expected an op and a decision, such as: nn.conv {{form=direct, block=32}}  // Conv_0");
  NodeDecision node;
  node.op = find_op(trim(line.substr(0, brace)));
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

std::vector<std::string> network_lines(const NetworkDecision& network) {
  std::vector<std::string> lines;
  if (network.combined) lines.emplace_back(kCombinedLine);
  for (const auto& [maker, reader] : network.apart)
    lines.push_back(fmt::format("network {{form=apart}} {} {}  // {} {} {}", maker.op->name, reader.op->name,
                                origin_beside_arrow(maker.origin), kArrow,
                                origin_beside_arrow(reader.origin)));
  return lines;
}

std::string decisions_text(const std::string& target, const std::vector<NodeDecision>& decisions,
                           const NetworkDecision& network) {
  std::string text = fmt::format("[{}]\n", target);
  for (const std::string& line : network_lines(network)) text += line + "\n";
  for (const NodeDecision& node : decisions) text += decision_line(node) + "\n";
  return text;
}

DecisionFile::NetworkEntry DecisionFile::parse_of_network(std::string_view text) {
  const size_t brace = text.find('}'), end = brace == std::string_view::npos ? text.size() : brace + 1;
  const Decision decision = parse_decision(text.substr(0, end));
  const std::string_view rest = trim(text.substr(end));
  NetworkEntry entry;
  if (decision.knobs.empty() && decision.form == "apart") {
    entry.apart = parse_separation(rest);
    return entry;
  }
  if (!decision.knobs.empty() || (decision.form != "combined" && decision.form != "separate"))
    user_error(
        "a network is {{form=combined}}, products of the same data as one, or {{form=separate}}, or keeps "
        "nodes {{form=apart}}, not {}{}",
        to_string(decision),
        decision.knobs.empty() ? did_you_mean(decision.form, {"combined", "separate", "apart"}) : "");
  if (!rest.empty() && !rest.starts_with("//"))
    user_error("behind {} nothing stands, not '{}'", to_string(decision), rest);
  entry.combined = decision.form == "combined";
  return entry;
}

void DecisionFile::add(NetworkEntry entry) {
  // A line for one target may differ from that for all, and any number of pairs is kept apart.
  const auto before = std::ranges::find_if(of_network_, [&](const NetworkEntry& other) {
    return !entry.apart && !other.apart && other.target == entry.target;
  });
  if (before != of_network_.end())
    user_error("whether the network is combined is said already for {}, by {}; leave one of the lines out",
               entry.target.empty() ? "all targets" : entry.target, before->place);
  of_network_.push_back(std::move(entry));
}

DecisionFile DecisionFile::parse(std::string_view text, const std::string& file) {
  DecisionFile result;
  result.name_ = file;
  std::string target;
  text = without_byte_order_mark(text);
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::string place = fmt::format("{}:{}", file, number);
    try {
      if (line.front() == '[' && line.back() == ']') {
        target = find_target(trim(line.substr(1, line.size() - 2))).name;
        continue;
      }
      if (const auto rest = behind_network(line)) {
        NetworkEntry entry = parse_of_network(*rest);
        entry.target = target;
        entry.place = place;
        result.add(std::move(entry));
      } else {
        result.entries_.push_back({target, {parse_line(line), place}});
      }
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", place, error.what()));
    }
  }
  return result;
}

bool DecisionFile::has_lines_for(const std::string& name) const {
  const auto is_for = [&](const auto& entry) { return entry.target.empty() || entry.target == name; };
  return std::ranges::any_of(entries_, is_for) || std::ranges::any_of(of_network_, is_for);
}

GivenDecisions DecisionFile::for_target(const std::string& name) const {
  std::vector<GivenDecisions::Line> lines;
  for (const Entry& entry : entries_) {
    if (entry.target.empty() || entry.target == name) lines.push_back(entry.line);
  }
  return GivenDecisions(std::move(lines));
}

std::optional<bool> DecisionFile::combines_products(const std::string& name) const {
  std::optional<bool> combined;
  for (const NetworkEntry& entry : of_network_)
    if (!entry.apart && (entry.target.empty() || entry.target == name)) combined = entry.combined;
  return combined;
}

std::vector<DecisionFile::PlacedSeparation> DecisionFile::apart(const std::string& name) const {
  std::vector<PlacedSeparation> edges;
  for (const NetworkEntry& entry : of_network_)
    if (entry.apart && (entry.target.empty() || entry.target == name))
      edges.push_back({*entry.apart, entry.place});
  return edges;
}

}  // namespace gantry
