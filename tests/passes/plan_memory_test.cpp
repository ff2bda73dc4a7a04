#include <random>

#include "host/support/error.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

Value* root_of(Value* value) {
  while (value->producer != nullptr && op_def(*value->producer).is_view) value = value->producer->inputs[0];
  return value;
}

struct Placed {
  int64_t from, to;
  size_t first, last;
  int64_t bytes;
};

/// Every slot with its lifetime, at the given dimensions; computed from the function anew.
std::vector<Placed> placements(const Function& main, const MemoryPlan& plan,
                               const std::map<std::string, int64_t>& dims) {
  std::vector<Placed> result;
  for (const auto& [value, slot] : plan.slots) {
    if (op_def(*value->producer).is_view) continue;
    Placed placed{slot.offset.evaluate(dims), 0, 0, 0, value->type.byte_size().evaluate(dims)};
    placed.to = placed.from + placed.bytes;
    for (size_t i = 0; i < main.nodes().size(); ++i) {
      const Node* node = main.nodes()[i];
      if (node == value->producer) placed.first = placed.last = i;
      for (Value* input : node->inputs) {
        if (root_of(input) == value) placed.last = i;
      }
    }
    result.push_back(placed);
  }
  for (const auto& [node, slots] : plan.scratch) {
    for (size_t i = 0; i < main.nodes().size(); ++i) {
      if (main.nodes()[i] != node) continue;
      for (const auto& slot : slots) {
        const int64_t from = slot.offset.evaluate(dims), bytes = slot.bytes.evaluate(dims);
        result.push_back({from, from + bytes, i, i, bytes});
      }
    }
  }
  return result;
}

void expect_sound(const Function& main, const MemoryPlan& plan, const std::map<std::string, int64_t>& dims) {
  const auto all = placements(main, plan, dims);
  const int64_t workspace = plan.workspace_bytes.evaluate(dims);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].from % 64, 0);
    EXPECT_GE(all[i].from, 0);
    EXPECT_LE(all[i].to, workspace);
    for (size_t j = 0; j < i; ++j) {
      if (all[i].first > all[j].last || all[j].first > all[i].last) continue;
      EXPECT_TRUE(all[i].to <= all[j].from || all[j].to <= all[i].from) << "two live values overlap";
    }
  }
}

int64_t most_live_bytes(const Function& main, const MemoryPlan& plan) {
  int64_t most = 0;
  const auto all = placements(main, plan, {});
  for (size_t i = 0; i < main.nodes().size(); ++i) {
    int64_t live = 0;
    for (const Placed& placed : all) live += placed.first <= i && i <= placed.last ? placed.bytes : 0;
    most = std::max(most, live);
  }
  return most;
}

TEST(PlanMemory, AChainAlternatesBetweenTwoPlaces) {
  const Graph graph = parse_graph(R"(fn @main(%x: Tensor[(1024), f32]) -> Tensor[(1024), f32] {
  %0 = exp(%x)
  %1 = tanh(%0)
  %2 = exp(%1)
  %3 = tanh(%2)
  %4 = exp(%3)
  return %4
})",
                                  table());
  const MemoryPlan plan = plan_memory(graph.main, {});
  EXPECT_EQ(plan.workspace_bytes, Dim(2 * 4096));
  EXPECT_EQ(plan.slots.size(), 4u);
  expect_sound(graph.main, plan, {});
}

TEST(PlanMemory, OutputsParametersConstantsAndViewsOfThemNeedNoSlot) {
  const Graph graph =
      parse_graph(R"(fn @main(%x: Tensor[(8), f32]) -> (Tensor[(2, 4), f32], Tensor[(4, 2), f32]) {
  %0 = reshape(%x, shape=(4, 2))
  %1 = exp(%x)
  %2 = reshape(%1, shape=(2, 4))
  return %2, %0
})",
                  table());
  const MemoryPlan plan = plan_memory(graph.main, {});
  EXPECT_TRUE(plan.slots.empty());
  EXPECT_EQ(plan.workspace_bytes, Dim(0));
}

TEST(PlanMemory, AViewKeepsItsInputAliveAndSharesItsSlot) {
  const Graph graph = parse_graph(R"(fn @main(%x: Tensor[(8), f32]) -> Tensor[(2, 4), f32] {
  %0 = exp(%x)
  %1 = reshape(%0, shape=(2, 4))
  %2 = tanh(%1)
  %3 = exp(%2)
  %4 = add(%3, %1)
  return %4
})",
                                  table());
  const MemoryPlan plan = plan_memory(graph.main, {});
  const auto& nodes = graph.main.nodes();
  EXPECT_EQ(plan.slots.at(nodes[1]->result()).offset, plan.slots.at(nodes[0]->result()).offset);
  expect_sound(graph.main, plan, {});
  EXPECT_EQ(plan.workspace_bytes, Dim(3 * 64));
}

TEST(PlanMemory, ScratchLivesWhileItsNodeRuns) {
  const Graph graph = parse_graph(R"(fn @main(%x: Tensor[(16), f32]) -> Tensor[(16), f32] {
  %0 = exp(%x)
  %1 = tanh(%0)
  %2 = exp(%1)
  return %2
})",
                                  table());
  const MemoryPlan plan = plan_memory(graph.main, [](const Node&) { return std::vector<Dim>{100, 1}; });
  EXPECT_EQ(plan.scratch.size(), 3u);
  EXPECT_EQ(plan.scratch.at(graph.main.nodes()[0])[0].bytes, Dim(100));
  expect_sound(graph.main, plan, {});
}

TEST(PlanMemory, SymbolicSizesShareSlotsAndHoldAtEveryBinding) {
  const Graph graph =
      parse_graph(R"(fn @main(%x: Tensor[(N, T, 8), f32], %c: Tensor[(32), f32]) -> Tensor[(N, T, 8), f32] {
  %0 = exp(%x)
  %1 = tanh(%0)
  %2 = concatenate(%1, %1, axis=2)
  %3 = exp(%2)
  %4 = strided_slice(%3, begin=(0, 0, 0), end=(N, T, 8), strides=[1, 1, 1])
  %5 = sum(%c, axes=[0], keepdims=true)
  %6 = add(%4, %5)
  %7 = exp(%6)
  return %7
})",
                  table());
  const MemoryPlan plan =
      plan_memory(graph.main, [](const Node&) { return std::vector<Dim>{Dim::symbol("N") * 12}; });
  for (int64_t n : {0, 1, 3, 64}) {
    for (int64_t t : {0, 1, 5, 128}) expect_sound(graph.main, plan, {{"N", n}, {"T", t}});
  }
  // The two widest live at once, and not much beside them.
  EXPECT_LT(plan.workspace_bytes.evaluate({{"N", 64}, {"T", 128}}), int64_t{64} * 128 * 16 * 4 * 2 + 100000);
}

TEST(PlanMemoryProperty, RandomGraphsAreSoundAndCloseToTheLiveMaximum) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 60; ++trial) {
    Graph graph;
    Function& main = graph.main;
    std::vector<Value*> values{main.add_parameter("x", {DType::kF32, {1, 4096}})};
    for (int i = 0; i < 40; ++i) {
      Value* a = values[values.size() - 1 - std::min<size_t>(random() % 3, values.size() - 1)];
      Value* b = values[values.size() - 1 - std::min<size_t>(random() % 6, values.size() - 1)];
      const bool wide = element_count(b->type.shape).value() < 20000 && random() % 3 == 0;
      TensorType type = wide ? TensorType{DType::kF32, {1, b->type.shape[1] * 2}} : a->type;
      if (random() % 7 == 0) type.shape[1] = 4096;
      values.push_back(main.add_node(op_set().find("add"), nullptr, {a, b}, {type}, {})->result());
    }
    main.outputs = {values.back()};
    const MemoryPlan plan = plan_memory(main, {});
    expect_sound(main, plan, {});
    EXPECT_LE(static_cast<double>(plan.workspace_bytes.value()),
              1.3 * static_cast<double>(most_live_bytes(main, plan)));
  }
}

}  // namespace
}  // namespace gantry
