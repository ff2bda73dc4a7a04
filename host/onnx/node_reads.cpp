#include "host/onnx/node_reads.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include "host/onnx/converters.h"

namespace gantry {

void add_reads(const onnx::NodeProto& node, std::set<std::string>& reads) {
  reads.insert(node.input().begin(), node.input().end());
  const bool differentiates = node.domain() == kTraining;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (differentiates && attribute.name() == "y") reads.insert(attribute.s());
    const auto add_graph = [&](const onnx::GraphProto& graph) {
      for (const onnx::NodeProto& inner : graph.node()) add_reads(inner, reads);
      for (const onnx::ValueInfoProto& output : graph.output()) reads.insert(output.name());
    };
    if (attribute.has_g()) add_graph(attribute.g());
    for (const onnx::GraphProto& body : attribute.graphs()) add_graph(body);
  }
}

bool reads_any(const onnx::NodeProto& node, const std::set<std::string>& names) {
  std::set<std::string> reads;
  add_reads(node, reads);
  return std::ranges::any_of(reads, [&](const std::string& name) { return names.count(name) != 0; });
}

std::vector<const onnx::ValueInfoProto*> given_inputs(const onnx::GraphProto& graph) {
  std::set<std::string> initialised;
  for (const onnx::TensorProto& tensor : graph.initializer()) initialised.insert(tensor.name());
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer())
    initialised.insert(tensor.values().name());
  std::vector<const onnx::ValueInfoProto*> given;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (initialised.count(input.name()) == 0) given.push_back(&input);
  }
  return given;
}

namespace {

/// Of each node of a graph by which others it is read, and how many of its own it waits for.
struct Readers {
  /// `add` adds the names that a node reads.
  template <typename Add>
  Readers(const onnx::GraphProto& graph, const Add& add) : of(graph.node_size()), waits(graph.node_size()) {
    std::unordered_map<std::string, int> makers;
    for (int i = 0; i < graph.node_size(); ++i) {
      for (const std::string& output : graph.node(i).output())
        if (!output.empty()) makers.emplace(output, i);
    }
    for (int i = 0; i < graph.node_size(); ++i) {
      std::set<std::string> reads;
      add(graph.node(i), reads);
      for (const std::string& name : reads) {
        const auto maker = makers.find(name);
        if (maker == makers.end()) continue;
        of[static_cast<size_t>(maker->second)].push_back(i);
        ++waits[static_cast<size_t>(i)];
      }
    }
  }

  std::vector<std::vector<int>> of;
  std::vector<int> waits;
};

/// Lets the nodes go that wait for none, and then those that waited for these alone; `left` hears of each, the first of
/// the graph first. The others keep a count above 0.
void release(Readers& readers, const std::function<void(int)>& left) {
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < readers.waits.size(); ++i)
    if (readers.waits[i] == 0) ready.push(static_cast<int>(i));
  while (!ready.empty()) {
    const int next = ready.top();
    ready.pop();
    left(next);
    for (const int reader : readers.of[static_cast<size_t>(next)])
      if (--readers.waits[static_cast<size_t>(reader)] == 0) ready.push(reader);
  }
}

}  // namespace

std::vector<const onnx::NodeProto*> nodes_in_order(const onnx::GraphProto& graph) {
  Readers readers(graph, [](const onnx::NodeProto& node, std::set<std::string>& reads) {
    add_reads(node, reads);
    // One that reads what it gives waits for nobody: a branch may have a name of the node's.
    for (const std::string& output : node.output()) reads.erase(output);
  });
  std::vector<const onnx::NodeProto*> order;
  release(readers, [&](int i) { order.push_back(&graph.node(i)); });
  for (int i = 0; i < graph.node_size(); ++i)
    if (readers.waits[static_cast<size_t>(i)] > 0) order.push_back(&graph.node(i));
  return order;
}

std::vector<const onnx::NodeProto*> nodes_in_cycles(const onnx::GraphProto& graph) {
  const auto add_inputs = [](const onnx::NodeProto& node, std::set<std::string>& reads) {
    reads.insert(node.input().begin(), node.input().end());
  };
  Readers readers(graph, add_inputs);
  release(readers, [](int) {});
  // What is left is in a cycle or behind one.
  const auto comes_back = [&readers](int start) {
    std::vector<bool> met(readers.of.size());
    std::vector<int> next{start};
    while (!next.empty()) {
      const int at = next.back();
      next.pop_back();
      for (const int reader : readers.of[static_cast<size_t>(at)]) {
        if (reader == start) return true;
        if (met[static_cast<size_t>(reader)]) continue;
        met[static_cast<size_t>(reader)] = true;
        next.push_back(reader);
      }
    }
    return false;
  };
  std::vector<const onnx::NodeProto*> nodes;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (readers.waits[static_cast<size_t>(i)] > 0 && comes_back(i)) nodes.push_back(&graph.node(i));
  }
  return nodes;
}

}  // namespace gantry
