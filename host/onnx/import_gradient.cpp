// Parts of the graph computed once more, with other values in the place of tensors: what is differentiated.
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "host/onnx/importer.h"
#include "host/onnx/node_import.h"
#include "host/onnx/node_reads.h"
#include "host/ops/builder.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

using Names = std::set<std::string>;

}  // namespace

std::vector<Importer::PlacedNode> Importer::nodes_between(const std::vector<std::string>& names,
                                                          const std::string& result) const {
  std::vector<PlacedNode> all;
  std::unordered_map<std::string, size_t> makers;  // places in `all`
  for (const OpenGraph& open : graphs_) {
    for (const onnx::NodeProto* node : nodes_in_order(*open.graph)) {
      for (const std::string& output : node->output()) makers[output] = all.size();
      all.push_back({node, open.function + 1 < open_.size()});
    }
  }
  Names seen(names.begin(), names.end());
  seen.insert("");  // an input that is left out
  std::set<size_t> needed;
  std::vector<std::string> rest{result};
  while (!rest.empty()) {
    const std::string name = std::move(rest.back());
    rest.pop_back();
    const auto maker = makers.find(name);
    if (!seen.insert(name).second || maker == makers.end()) continue;
    if (!needed.insert(maker->second).second) continue;
    Names reads;
    add_reads(*all[maker->second].node, reads);
    rest.insert(rest.end(), reads.begin(), reads.end());
  }
  std::vector<PlacedNode> between;
  for (const size_t place : needed) between.push_back(all[place]);
  return between;
}

const Binding* Importer::find(const std::string& name) const {
  for (size_t scope = scopes_.size(); scope-- > 0;) {
    const auto found = scopes_[scope].find(name);
    if (found != scopes_[scope].end()) return &found->second;
  }
  return nullptr;
}

Value* Importer::value_here(const std::string& name) const {
  for (size_t scope = scopes_.size(); scope-- > open_.back().first_scope;) {
    const auto found = scopes_[scope].find(name);
    if (found != scopes_[scope].end()) return found->second.value;
  }
  return nullptr;
}

bool Importer::is_shared(const Value* value, const std::string& name) const {
  for (size_t scope = open_.back().first_scope; scope < scopes_.size(); ++scope) {
    for (const auto& [other, binding] : scopes_[scope]) {
      if (binding.value == value && other != name) return true;
    }
  }
  return false;
}

Value* Importer::variable(const std::string& name, Value* value, bool is_fixed, const std::string& reader) {
  if (value->is_constant() && is_fixed) return value;
  if (value_here(name) == value && !value->is_constant() && !is_shared(value, name)) return value;
  // Of a constant converters would compute what then does not depend on it any more.
  return Builder(function(), {reader})(op::identity, {value});
}

void Importer::convert_again(const onnx::NodeProto& node) {
  std::unordered_map<std::string, Binding> results;
  {
    struct Scope {
      explicit Scope(Importer& i) : importer(i) { importer.scopes_.emplace_back(); }
      ~Scope() { importer.scopes_.pop_back(); }
      Importer& importer;
    } scope(*this);
    // Under its own name: numbers that are drawn at random follow from it.
    convert_node(node, prefix_ + node_name(node));
    std::swap(results, scopes_.back());
  }
  scopes_.back().merge(results);
}

Substituted Importer::substitute(const std::vector<std::string>& names, const std::vector<Value*>& values,
                                 size_t varied_count, const std::string& result,
                                 const onnx::NodeProto& reader, const std::string& name) {
  if (depth_ == kDeepestNesting)
    user_error("node {}: nodes differentiate each other more than {} deep", name, kDeepestNesting);
  if (const Binding* known = find(result); known != nullptr && known->unknown) throw ReadsUnknown{};
  struct Scope {
    explicit Scope(Importer& i) : importer(i) { ++importer.depth_; }
    ~Scope() {
      --importer.depth_;
      if (is_open) importer.scopes_.pop_back();
    }
    Importer& importer;
    bool is_open = false;
  } scope(*this);
  Substituted part;
  Names changed, varied(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(varied_count));
  for (size_t i = 0; i < names.size(); ++i) {
    part.variables.push_back(variable(names[i], values[i], i >= varied_count, name));
    if (value_here(names[i]) != part.variables[i]) changed.insert(names[i]);
  }
  scopes_.emplace_back();
  scope.is_open = true;
  for (size_t i = 0; i < names.size(); ++i) {
    Binding binding;
    if (changed.count(names[i]) == 0) binding = *find(names[i]);  // with what is known of it
    binding.value = part.variables[i];
    define(names[i], std::move(binding), name);
  }
  for (const PlacedNode& placed : nodes_between(names, result)) {
    const onnx::NodeProto& node = *placed.node;
    if (&node == &reader) user_error("node {}: '{}' is computed from its own results", name, result);
    const bool depends = reads_any(node, varied);
    const bool is_missing = std::ranges::any_of(
        node.output(), [&](const std::string& output) { return !output.empty() && find(output) == nullptr; });
    if (depends) varied.insert(node.output().begin(), node.output().end());
    if (!is_missing && !(depends && placed.is_outside) && !reads_any(node, changed)) continue;
    changed.insert(node.output().begin(), node.output().end());
    convert_again(node);
  }
  Binding& found = lookup(result, name);
  if (found.sequence || found.absent) user_error("node {}: '{}' is no tensor", name, result);
  part.result = materialise(found, result);
  return part;
}

}  // namespace gantry
