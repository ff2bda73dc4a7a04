// Ifs on data whose branches give tensors of different ranks. A tensor has one rank in the graph, so what
// reads such a result is converted twice, behind each branch, up to where ranks are the same again:
//
//   s = If(c) {scalar} else {vector}    y = if(c) { s = scalar; y = x * s } else { s = vector; y = x * s }
//   y = Mul(x, s)
//   z = Relu(y)                         z = relu(y)
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <utility>

#include "host/onnx/branches.h"
#include "host/onnx/importer.h"
#include "host/onnx/malformed.h"
#include "host/onnx/node_reads.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using Names = std::set<std::string>;
/// What names stand for, as text: alike in both branches where one value can stand for both.
using Kinds = std::map<std::string, std::string>;

const std::string kUnknown = "unknown";

std::string kind_of(const Binding& binding) {
  const auto tensor = [](const TensorType& type) {
    return fmt::format("{} of rank {}", name_of(type.dtype), type.rank());
  };
  if (binding.has_value != nullptr) return "optional";
  if (binding.late) return "sequence";
  if (binding.sequence) return fmt::format("sequence of {}", binding.sequence->size());
  if (binding.absent) return "absent";
  if (binding.value != nullptr) return tensor(binding.value->type);
  if (binding.constant) return tensor(binding.constant->type);
  if (binding.contents) return tensor(binding.contents->type());
  return kUnknown;
}

void add_outputs_of(const onnx::NodeProto& node, Names& names) {
  for (const std::string& output : node.output()) {
    if (!output.empty()) names.insert(output);
  }
}

/// The places of those nodes and of all that is computed from their results.
std::set<size_t> dependents(const std::vector<const onnx::NodeProto*>& nodes, const std::set<size_t>& roots) {
  std::set<size_t> found = roots;
  Names names;
  for (size_t i = *roots.begin(); i < nodes.size(); ++i) {
    if (roots.count(i) == 0 && !reads_any(*nodes[i], names)) continue;
    found.insert(i);
    add_outputs_of(*nodes[i], names);
  }
  return found;
}

Names differing(const Kinds& a, const Kinds& b) {
  Names names;
  for (const auto& [name, kind] : a) {
    const auto other = b.find(name);
    if (other != b.end() && other->second != kind) names.insert(name);
  }
  return names;
}

/// The names that those nodes define and others read, of those that are not in `except`.
std::vector<std::string> outer_names(const std::vector<const onnx::NodeProto*>& nodes,
                                     const std::set<size_t>& places, const Names& results,
                                     const Names& except) {
  Names read = results, defined;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (places.count(i) != 0)
      add_outputs_of(*nodes[i], defined);
    else
      add_reads(*nodes[i], read);
  }
  std::vector<std::string> names;
  for (const std::string& name : defined) {
    if (read.count(name) != 0 && except.count(name) == 0) names.push_back(name);
  }
  return names;
}

}  // namespace

Choice Importer::next_choice() {
  const int64_t number = choice_count_++;
  const auto chosen = choices_.find(number);
  return {number, chosen == choices_.end() ? std::nullopt : std::optional(chosen->second), joins_ranks_};
}

void Importer::refuse_branches(const onnx::NodeProto& node, const BranchesDiffer& differ) {
  unsupported_.add_node(UnsupportedKind::kControlFlow,
                        "If: branches whose results differ in rank or element type", differ.node);
  skip_node(node, prefix_ + node_name(node));
}

bool Importer::has_outer_list() const {
  return lists_.size() > 1 && lists_[lists_.size() - 2] == lists_.back();
}

struct Importer::Apart {
  /// `all_roots`: the node, and others behind it whose results differ in rank as well; `start`: the number of
  /// the first Choice in the node.
  Apart(Importer& i, const NodeList& all, const std::set<size_t>& all_roots, int64_t start,
        const BranchesDiffer& met)
      : importer(i),
        list(all),
        at(*all_roots.begin()),
        roots(all_roots),
        differ(met),
        name(i.prefix_ + node_name(*all.nodes[at])),
        choice(met.number - start),
        readers(dependents(all.nodes, roots)) {
    if (at == 0) choices = list.choices;
    for (const size_t root : roots) --importer.node_names_[importer.prefix_ + node_name(*list.nodes[root])];
    names_before = importer.node_names_;
  }

  /// Converts it, and what reads tensors of it that differ in rank, once for each branch. The places of all
  /// that this was done with. Where others than the list read such a tensor, throws `differ` for the list
  /// around this one, or joins the ranks of what is one element where there is none, or puts it down.
  std::set<size_t> convert() {
    constexpr int kDeepest = 5;  // each is converted four times as often as the one around it
    if (importer.aparts_ == kDeepest) return refuse();
    struct Inside {
      explicit Inside(int& count) : count(count) { ++count; }
      ~Inside() { --count; }
      int& count;
    } inside_this(importer.aparts_);
    // Where ranks differ is only known once all is converted. A branch behind which that fails cannot be
    // taken.
    const Kinds kinds[] = {probe(true), probe(false)};
    if (!errors[0].empty() && !errors[1].empty()) throw_both();
    const Kinds& possible = kinds[errors[0].empty() ? 0 : 1];
    const bool both = errors[0].empty() && errors[1].empty();
    Names apart = both ? differing(kinds[0], kinds[1]) : Names{}, inside = apart;
    for (const size_t root : roots) {
      if (root == at) continue;
      add_outputs_of(*list.nodes[root], inside);
      for (const std::string& output : list.nodes[root]->output()) {
        const auto kind = possible.find(output);
        if (kind != possible.end() && kind->second == kUnknown) apart.insert(output);
      }
    }
    if (std::ranges::any_of(apart, [&](const std::string& n) { return list.results.count(n) != 0; }))
      return give_up();
    std::set<size_t> places = roots;
    for (const size_t reader : readers) {
      if (reads_any(*list.nodes[reader], inside)) places.insert(reader);
    }
    add(places, outer_names(list.nodes, places, list.results, apart));
    for (const size_t place : places)
      importer.skip_node(*list.nodes[place], name);  // what nothing outside reads
    return places;
  }

 private:
  /// Those nodes behind the branch; in both they have the same names.
  NodeList part(const std::set<size_t>& places, const std::vector<std::string>& results, bool taken) {
    importer.node_names_ = names_before;
    choices[choice] = taken;
    NodeList nodes{{}, {results.begin(), results.end()}, choices};
    for (const size_t place : places) nodes.nodes.push_back(list.nodes[place]);
    return nodes;
  }

  Kinds probe(bool taken) {
    Kinds kinds;
    try {
      importer.import_body_by(name, [&] {
        importer.convert_list(part(readers, outer_names(list.nodes, readers, list.results, {}), taken));
        for (const auto& [defined, binding] : importer.scopes_.back()) kinds[defined] = kind_of(binding);
      });
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUser) throw;
      errors[taken ? 0 : 1] = texts_of(error);
      broken = broken || is_broken(error);
    }
    return kinds;
  }

  [[noreturn]] void throw_both() const {
    std::vector<std::string> texts;
    for (const std::vector<std::string>& own : errors) {
      for (const std::string& text : own) {
        const std::string whole =
            fmt::format("node {}: neither of its branches can be: {}", differ.node, text);
        if (std::ranges::find(texts, whole) == texts.end()) texts.push_back(whole);
      }
    }
    throw MalformedModel(std::move(texts), "nodes", broken);
  }

  std::set<size_t> give_up() {
    importer.node_names_ = names_before;
    if (importer.has_outer_list()) throw BranchesDiffer(differ);
    return refuse();
  }
  /// The way that is left: one element is read alike in whatever rank.
  std::set<size_t> refuse() {
    struct Joining {
      explicit Joining(bool& joins) : joins(joins), outer(std::exchange(joins, true)) {}
      ~Joining() { joins = outer; }
      bool& joins;
      bool outer;
    } joining(importer.joins_ranks_);
    for (const size_t root : roots) {
      if (const auto still = importer.convert_listed(list, root))
        importer.refuse_branches(*list.nodes[root], *still);
    }
    return roots;
  }

  Branch branch(NodeImport& n, const std::set<size_t>& places, const std::vector<std::string>& results, bool taken) {
    const NodeList nodes = part(places, results, taken);
    Branch made;
    made.body = importer.import_body_by(name, [&] {
      importer.convert_list(nodes);
      for (const std::string& result : results) {
        const Binding& binding = importer.lookup(result, name);
        made.results.push_back(carried_as(n, binding));
        for (Value* value : carry(n, binding, made.results.back())) importer.return_value(value, name);
      }
    });
    return made;
  }

  /// The node that calls the branches; `results` stand for what it gives.
  void add(const std::set<size_t>& places, const std::vector<std::string>& results) try {
    NodeImport import(importer, *list.nodes[at], differ.node);
    Branch bodies[2];
    for (const bool taken : {true, false}) {
      if (errors[taken ? 0 : 1].empty()) bodies[taken ? 0 : 1] = branch(import, places, results, taken);
    }
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (bodies[i].body) continue;
      const std::string why =
          fmt::format("node {} (If) takes its {}, which these shapes do not fit: {}", differ.node,
                      i == 0 ? "then_branch" : "else_branch", errors[i].front());
      importer.warn(fmt::format("where {}, the run ends with an error", why));
      bodies[i] = impossible_branch(import, bodies[1 - i], why);
    }
    std::vector<Binding> bindings = add_branches(import, differ.condition, bodies[0], bodies[1]);
    for (size_t i = 0; i < results.size(); ++i) importer.define(results[i], std::move(bindings[i]), name);
  } catch (const ReadsUnknown&) {
    // What is not supported in it is put down.
  } catch (const Unsupported& error) {
    importer.add_unsupported(*list.nodes[at], name, error);
  }

  Importer& importer;
  const NodeList& list;
  size_t at;
  std::set<size_t> roots;
  const BranchesDiffer& differ;
  std::string name;
  int64_t choice;            ///< of the If, by how many were met in the node before
  std::set<size_t> readers;  ///< the roots, and all that is computed from their results
  std::map<int64_t, bool> choices;
  std::map<std::string, int> names_before;
  std::vector<std::string> errors[2];  ///< why a branch cannot be
  bool broken = false;                 ///< one of them is a BrokenModel's
};

std::optional<BranchesDiffer> Importer::convert_listed(const NodeList& list, size_t at) {
  if (at == 0) {
    for (const auto& [number, taken] : list.choices) choices_[choice_count_ + number] = taken;
  }
  try {
    convert_named(*list.nodes[at]);
  } catch (const BranchesDiffer& differ) {
    return differ;
  }
  return std::nullopt;
}

void Importer::convert_list(const NodeList& list) {
  struct Listed {
    explicit Listed(Importer& i) : importer(i) { importer.lists_.push_back(&importer.function()); }
    ~Listed() { importer.lists_.pop_back(); }
    Importer& importer;
  } listed(*this);
  // An error in a branch or a body may only mean that it is never taken, and what is behind it does not
  // matter then.
  const bool is_body = open_.size() != 1 || scopes_.size() != 1;
  Malformed malformed;
  std::optional<UnsupportedReport> before_wrong;  // of a body
  const auto try_nodes = [&](const std::set<size_t>& places, const auto& convert) {
    try {
      convert();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUser) throw;
      wrong_in_bodies_ = wrong_in_bodies_ || is_body;
      if (is_body && !names_all_) throw;
      if (is_body && malformed.empty()) before_wrong = unsupported_;
      malformed.add(error);
      for (const size_t place : places)
        skip_node(*list.nodes[place], prefix_ + node_name(*list.nodes[place]));
    }
  };
  const auto try_node = [&](size_t at) {
    std::optional<BranchesDiffer> differ;
    try_nodes({at}, [&] { differ = convert_listed(list, at); });
    return differ;
  };
  std::set<size_t> converted;
  for (size_t at = 0; at < list.nodes.size(); ++at) {
    if (!converted.insert(at).second) continue;
    const int64_t start = choice_count_;
    const std::optional<BranchesDiffer> differ = try_node(at);
    if (!differ) continue;
    // Its readers may read what stands behind it and does not depend on it.
    std::set<size_t> roots{at}, readers = dependents(list.nodes, roots);
    for (size_t i = at + 1; i < list.nodes.size(); ++i) {
      if (readers.count(i) != 0 || converted.count(i) != 0) continue;
      if (!try_node(i)) {
        converted.insert(i);
      } else {  // in the branches of this one
        roots.insert(i);
        readers = dependents(list.nodes, roots);
      }
    }
    converted.insert(roots.begin(), roots.end());
    try_nodes(roots, [&] { converted.merge(Apart(*this, list, roots, start, *differ).convert()); });
  }
  if (before_wrong) unsupported_ = *std::move(before_wrong);
  malformed.throw_any("nodes");
}

}  // namespace gantry
