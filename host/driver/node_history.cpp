#include "host/driver/node_history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "host/ops/control.h"
#include "host/ops/op.h"

namespace gantry {
namespace {

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

std::string types_of(const Node& node) {
  std::string text;
  for (const Value* result : node.results) text += (text.empty() ? "" : ", ") + result->type.str();
  return text;
}

// Stages of a pass that runs several times are numbered.
bool folds(const std::string& stage) {
  return stage.starts_with("fold_constant");
}
/// Others drop what nobody reads too, when they have rewritten something.
bool drops(const std::string& stage) {
  return stage.starts_with("dead_code");
}

}  // namespace

std::string to_string(const NodeEnd& end) {
  std::string text;
  if (end.pass == "import") {
    text =
        "nothing is left of it once the model is read: what it yields is known then (a constant, a shape), "
        "or is "
        "its input";
  } else if (folds(end.pass)) {
    text = fmt::format("its result, {}, is a constant: {} computed it", end.type, end.pass);
  } else if (end.readers.empty() || drops(end.pass)) {
    text = fmt::format("nothing reads its result any more: {} dropped it", end.pass);
  } else if (end.pass == "simplify_inference") {
    text = fmt::format("it ({}) does nothing to its input: {} left it out", end.ops, end.pass);
  } else {
    text = fmt::format("{} replaced it ({}) by what others compute", end.pass, end.ops);
  }
  if (end.readers.empty()) return text;
  constexpr size_t kMostShown = 8;
  std::vector<std::string> readers = end.readers;
  const bool more = readers.size() > kMostShown;
  readers.resize(std::min(readers.size(), kMostShown));
  return fmt::format("{}; read by {}{}", text, fmt::join(readers, ", "), more ? ", …" : "");
}

void NodeHistory::record(const std::string& pass, const Graph& graph) {
  passes_.push_back(pass);
  record(graph.main);
}

void NodeHistory::record(const Function& function) {
  const size_t index = passes_.size() - 1;
  const auto users = function.users();
  for (const Node* node : function.nodes()) {
    if (is_control_flow(*node)) {
      for (const auto& body : node->bodies) record(*body);
    }
    std::vector<std::string> readers;
    for (const Value* result : node->results) {
      const auto found = users.find(result);
      if (found == users.end()) continue;
      for (const Node* user : found->second) {
        for (const std::string& name : user->origin) add_once(readers, name);
      }
    }
    for (const std::string& name : node->origin) {
      Seen& seen = seen_[name];
      const bool first = seen.pass != index || seen.ops.empty();
      if (first) seen = {index, "", "", {}};
      seen.ops += (seen.ops.empty() ? "" : "+") + node->op->name;
      seen.type = types_of(*node);  // the last of them computes what the node did
      seen.readers.clear();
      for (const std::string& reader : readers) {
        if (reader != name) seen.readers.push_back(reader);
      }
    }
  }
}

std::optional<NodeEnd> NodeHistory::end_of(const std::string& node) const {
  const auto found = seen_.find(node);
  if (found == seen_.end()) return NodeEnd{"import", "", "", {}};
  const Seen& seen = found->second;
  if (seen.pass + 1 >= passes_.size()) return std::nullopt;
  return NodeEnd{passes_[seen.pass + 1], seen.ops, seen.type, seen.readers};
}

}  // namespace gantry
