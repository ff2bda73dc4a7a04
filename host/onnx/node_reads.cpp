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

namespace {

/// Of each node of a graph by which others it is read, and how many of its own it waits for.
struct Readers {
  explicit Readers(const onnx::GraphProto& graph) : of(graph.node_size()), waits(graph.node_size()) {
    std::unordered_map<std::string, int> makers;
    for (int i = 0; i < graph.node_size(); ++i) {
      for (const std::string& output : graph.node(i).output())
        if (!output.empty()) makers.emplace(output, i);
    }
    for (int i = 0; i < graph.node_size(); ++i) {
      std::set<std::string> reads;
      add_reads(graph.node(i), reads);
      for (const std::string& name : reads) {
        const auto maker = makers.find(name);
        if (maker == makers.end() || maker->second == i) continue;
        of[static_cast<size_t>(maker->second)].push_back(i);
        ++waits[static_cast<size_t>(i)];
      }
    }
  }

  std::vector<std::vector<int>> of;
  std::vector<int> waits;
};

}  // namespace

std::vector<const onnx::NodeProto*> nodes_in_order(const onnx::GraphProto& graph) {
  Readers readers(graph);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < graph.node_size(); ++i)
    if (readers.waits[static_cast<size_t>(i)] == 0) ready.push(i);
  std::vector<const onnx::NodeProto*> order;
  while (!ready.empty()) {
    const int next = ready.top();
    ready.pop();
    order.push_back(&graph.node(next));
    for (const int reader : readers.of[static_cast<size_t>(next)])
      if (--readers.waits[static_cast<size_t>(reader)] == 0) ready.push(reader);
  }
  for (int i = 0; i < graph.node_size(); ++i)
    if (readers.waits[static_cast<size_t>(i)] > 0) order.push_back(&graph.node(i));
  return order;
}

}  // namespace gantry
