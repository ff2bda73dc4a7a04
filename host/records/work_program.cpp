#include "host/records/work_program.h"

#include <map>
#include <utility>
#include <vector>

#include "host/ops/builder.h"
#include "host/passes/work_digest.h"
#include "host/support/random.h"
#include "rpc/visible_text.h"

namespace gantry::records {
namespace {

/// Of f32, which networks' weights are where forms have a choice; others stay zeros.
ConstantPtr drawn(const TensorType& type, Random& random) {
  std::byte* bytes = nullptr;
  auto constant = allocate_constant(type, &bytes);
  std::fill_n(bytes, constant->size, std::byte{0});
  if (type.dtype != DType::kF32) return constant;
  // Products of some hundreds of them stay near 1.
  constexpr double kDeviation = 0.05;
  auto* numbers = reinterpret_cast<float*>(bytes);
  for (size_t i = 0; i < constant->size / sizeof(float); ++i)
    numbers[i] = static_cast<float>(random.normal() * kDeviation);
  return constant;
}

ConstantPtr zeros(const TensorType& type) {
  std::byte* bytes = nullptr;
  auto constant = allocate_constant(type, &bytes);
  std::fill_n(bytes, constant->size, std::byte{0});
  return constant;
}

/// Copies nodes into a function; what they read of others becomes parameters and constants.
class Cutter {
 public:
  explicit Cutter(Function& to) : to_(to) {}

  void copy(const Node& node) {
    std::vector<Value*> inputs;
    for (const Value* input : node.inputs) inputs.push_back(input == nullptr ? nullptr : value_of(*input));
    Node* made = Builder(to_, node.origin).again(node, std::move(inputs));
    made->decision.reset();
    for (size_t i = 0; i < node.results.size(); ++i) values_[node.results[i]] = made->results[i];
    last_ = made;
  }
  void finish() {
    for (size_t i = 0; i < last_->results.size(); ++i) {
      to_.outputs.push_back(last_->results[i]);
      to_.output_names.push_back("result" + std::to_string(i));
    }
  }

 private:
  Value* value_of(const Value& value) {
    Value*& known = values_[&value];
    if (known != nullptr) return known;
    if (!value.is_constant()) return known = to_.add_parameter("x", value.type);
    return known = to_.add_constant("w", is_immediate(value) ? value.constant : zeros(value.type));
  }

  Function& to_;
  std::map<const Value*, Value*> values_;
  const Node* last_ = nullptr;
};

}  // namespace

WorkProgram work_program(const Function& function, const Node& node) {
  Graph graph;
  Cutter cutter(graph.main);
  for (const Node* step : work_nodes(function, node)) cutter.copy(*step);
  cutter.finish();
  // Nodes may be called by bytes that are no text.
  return {work_digest(function, node), rpc::visible_text(print(graph, op_set()), rpc::Lines::kMany)};
}

Graph graph_of(const WorkProgram& program, uint64_t seed) {
  Graph graph = parse_graph(program.text, op_set());
  if (graph.main.nodes().empty() || work_digest(graph.main, *graph.main.nodes().front()) != program.work)
    user_error("its program does other work than the record says");
  Random random(seed, "weights");
  for (Value* constant : graph.main.constants()) {
    if (!is_immediate(*constant)) constant->constant = drawn(constant->type, random);
  }
  return graph;
}

}  // namespace gantry::records
