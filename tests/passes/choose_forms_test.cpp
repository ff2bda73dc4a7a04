// Forms of a whole network: predictions of nodes, and conversions between the orders in which images lie.
#include "host/passes/choose_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "host/codegen/find_target.h"
#include "host/ops/conv.h"
#include "host/ops/movement.h"
#include "host/passes/alter_layout.h"
#include "tests/forms/given_forms.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

/// What each convolution may cost as the model has it, channels-last, and from one to the other; by origin.
struct Costs {
  double plain = 0, last = 0, from_plain = 0;
};
using CostTable = std::map<std::string, Costs>;

const Decision kPlain{"plain", {}}, kLast{"direct", {{"block", 8}}},
    kFromPlain{"direct", {{"block", 8}, {"plain_data", 1}}};

constexpr double kConvertedElement = 1;

/// The three ways of a target whose convolutions take what a table says, and conversions as long as they have elements;
/// those of one point move none.
class PricedForms : public GivenForms {
 public:
  explicit PricedForms(CostTable costs)
      : GivenForms(find_target("x86-64-v2"), [](const FormQuestion&, const FormSet&) { return kPlain; }),
        costs_(std::move(costs)) {}

  std::vector<FormOption> options(const FormQuestion& question) const override {
    const Costs& costs = costs_.at(question.node.origin.at(0));
    std::vector<FormOption> options;
    for (const auto& [decision, cost] : {std::pair(kPlain, costs.plain), {kLast, costs.last}, {kFromPlain, costs.from_plain}})
      options.push_back({decision, cost, orders(question, decision)});
    return options;
  }
  double conversion(const TensorType& type) const override {
    if (type.shape[2] == Dim(1) && type.shape[3] == Dim(1)) return 0;
    return kConvertedElement * double(element_count(type.shape).value());
  }

 private:
  CostTable costs_;
};

std::string conv(const std::string& input, const std::string& origin, int from, int to) {
  return fmt::format("nn.conv({}, @w{}: Tensor[({}, {}, 1, 1), f32], channels={}, kernel=[1, 1], strides=[1, 1], "
                     "dilations=[1, 1], padding=(0, 0, 0, 0))  // {}\n",
                     input, origin, to, from, to, origin);
}

/// What a graph takes: its decisions by the table, and the transpositions that are left in it.
double cost_of(const Graph& graph, const CostTable& costs) {
  double cost = 0;
  for (const Node* node : graph.main.nodes()) {
    if (node->is(op::transpose) && !node->inputs[0]->is_constant())
      cost += kConvertedElement * double(element_count(node->result()->type.shape).value());
    if (!node->is(nn::conv)) continue;
    const Costs& its = costs.at(node->origin.at(0));
    cost += *node->decision == kPlain ? its.plain : *node->decision == kLast ? its.last : its.from_plain;
  }
  return cost;
}

Graph altered(const std::string& text, const CostTable& costs) {
  Graph graph = parse_graph(text, table());
  alter_layout(graph, PricedForms(costs), fresh_context());
  verify(graph, table(), "alter_layout");
  fold_constant(graph, fresh_context());
  dead_code(graph, fresh_context());
  return graph;
}

std::vector<Decision> decisions_of(const Graph& graph) {
  std::vector<Decision> decisions;
  for (const Node* node : graph.main.nodes()) {
    if (node->is(nn::conv)) decisions.push_back(*node->decision);
  }
  return decisions;
}

std::string function(int channels, int results, const std::string& body) {
  return fmt::format("fn @main(%x: Tensor[(1, {}, 2, 2), f32]) -> Tensor[(1, {}, 2, 2), f32] {{\n{}}}\n", channels, results,
                     body);
}

TEST(ChooseForms, TheLocallyBestLosesWhereConversionsCostMoreThanItSaves) {
  const std::string text = function(4, 4, "  %a = " + conv("%x", "A", 4, 4) + "  return %a\n");
  EXPECT_EQ(decisions_of(altered(text, {{"A", {50, 20, 90}}})).at(0), kPlain) << "16 elements there and 16 back";
  EXPECT_EQ(decisions_of(altered(text, {{"A", {60, 20, 90}}})).at(0), kLast);
  EXPECT_EQ(decisions_of(altered(text, {{"A", {60, 20, 30}}})).at(0), kFromPlain);
}

TEST(ChooseForms, OneThatIsWorseByItselfServesItsNeighbours) {
  const std::string text = function(4, 4, "  %a = " + conv("%x", "A", 4, 4) + "  %r = nn.relu(%a)\n  %b = " +
                                              conv("%r", "B", 4, 4) + "  %c = " + conv("%b", "C", 4, 4) + "  return %c\n");
  // 32 for conversions at the ends; B plain between the others would be 32 more.
  EXPECT_THAT(decisions_of(altered(text, {{"A", {60, 20, 99}}, {"B", {10, 40, 99}}, {"C", {60, 20, 99}}})),
              testing::ElementsAre(kLast, kLast, kLast));
  EXPECT_THAT(decisions_of(altered(text, {{"A", {25, 20, 99}}, {"B", {10, 40, 99}}, {"C", {25, 20, 99}}})),
              testing::ElementsAre(kPlain, kPlain, kPlain));
}

TEST(ChooseForms, AConversionIsCountedOnceWhoeverReadsIt) {
  const std::string text =
      function(4, 8, "  %a = " + conv("%x", "A", 4, 4) + "  %b = " + conv("%x", "B", 4, 4) +
                         "  %c = concatenate(%a, %b, axis=1)\n  return %c\n");
  // Alone each would lose with 16 before and 16 behind it; together they share what is before, and 32 behind.
  const Costs each{40, 15, 99};
  EXPECT_THAT(decisions_of(altered(text, {{"A", each}, {"B", each}})), testing::ElementsAre(kLast, kLast));
}

TEST(ChooseForms, SmallOperandsAreConvertedAndNotLargeOnes) {
  const std::string text = "fn @main(%x: Tensor[(1, 4, 2, 2), f32], %y: Tensor[(1, 64, 2, 2), f32]) -> Tensor[(1, 68, 2, 2), "
                           "f32] {\n  %a = " +
                           conv("%x", "A", 4, 4) + "  %b = concatenate(%a, %y, axis=1)\n  return %b\n}\n";
  const Graph graph = altered(text, {{"A", {999, 1, 1}}});
  EXPECT_EQ(cost_of(graph, {{"A", {999, 1, 1}}}), 17) << print(graph, table());
}

// Behind a concatenation either order is written at no cost, and the mean's point lies alike in both.
TEST(ChooseForms, WhatIsMadeChannelsLastStaysSoWhereNothingIsSavedByAnotherOrder) {
  const std::string text = "fn @main(%x: Tensor[(1, 4, 2, 2), f32]) -> Tensor[(1, 8, 1, 1), f32] {\n  %a = " +
                           conv("%x", "A", 4, 4) + "  %b = " + conv("%x", "B", 4, 4) +
                           "  %c = concatenate(%a, %b, axis=1)\n  %r = nn.relu(%c)\n  %m = mean(%r, axes=[2, 3], keepdims=true)\n"
                           "  return %m\n}\n";
  const Graph graph = altered(text, {{"A", {999, 1, 999}}, {"B", {999, 1, 999}}});
  for (const Node* node : graph.main.nodes()) {
    if (!node->is(op::transpose)) continue;
    EXPECT_TRUE(node->inputs[0]->producer == nullptr || graph.main.is_output(node->result())) << print(graph, table());
  }
}

// --- against all combinations

/// Small networks: convolutions, activations, sums and concatenations of what is there.
struct RandomNetwork {
  std::string text;
  CostTable costs;

  explicit RandomNetwork(unsigned seed) {
    std::mt19937 bits(seed);
    const auto below = [&](int end) { return std::uniform_int_distribution<int>(0, end - 1)(bits); };
    std::vector<std::pair<std::string, int>> values{{"%x", 4}};
    std::string body;
    const int nodes = 3 + below(5);
    for (int i = 0; i < nodes; ++i) {
      const auto [value, channels] = values[static_cast<size_t>(std::max(0, int(values.size()) - 1 - below(3)))];
      const std::string name = fmt::format("%n{}", i);
      const auto [other, others] = values[static_cast<size_t>(below(int(values.size())))];
      int results = channels;
      const int kind = below(6);
      if (kind <= 2) {
        const std::string origin = fmt::format("C{}", i);
        results = 4 << below(2);
        body += "  " + name + " = " + conv(value, origin, channels, results);
        costs[origin] = {double(below(60)), double(below(60)), double(below(60))};
      } else if (kind == 3) {
        body += "  " + name + " = nn.relu(" + value + ")\n";
      } else if (kind == 4 && channels == others) {
        body += "  " + name + " = add(" + value + ", " + other + ")\n";
      } else {
        body += "  " + name + " = concatenate(" + value + ", " + other + ", axis=1)\n";
        results = channels + others;
      }
      values.emplace_back(name, results);
    }
    text = function(4, values.back().second, body + "  return " + values.back().first + "\n");
  }
};

/// The least of all combinations of decisions and of orders for what takes either: by definition, not as choose_forms has
/// it.
class Exhaustive {
 public:
  Exhaustive(const Graph& graph, const CostTable& costs) : function_(graph.main), costs_(costs) {
    for (const Node* node : function_.nodes()) nodes_.push_back(node);
    ways_.resize(nodes_.size());
  }

  double least() {
    double least = std::numeric_limits<double>::infinity();
    for (;;) {
      least = std::min(least, cost());
      size_t i = 0;
      while (i < nodes_.size() && ++ways_[i] == (nodes_[i]->is(nn::conv) ? 3 : 2)) ways_[i++] = 0;
      if (i == nodes_.size()) return least;
    }
  }

 private:
  int way_of(const Node* node) const {
    return ways_[static_cast<size_t>(std::ranges::find(nodes_, node) - nodes_.begin())];
  }
  bool makes_last(const Value* value) const { return value->producer != nullptr && way_of(value->producer) != 0; }
  bool wants_last(const Node* node) const { return way_of(node) == 1; }

  double cost() const {
    double cost = 0;
    std::vector<const Value*> values(function_.parameters.begin(), function_.parameters.end());
    for (const Node* node : nodes_) {
      values.push_back(node->result());
      if (!node->is(nn::conv)) continue;
      const Costs& its = costs_.at(node->origin.at(0));
      cost += way_of(node) == 0 ? its.plain : way_of(node) == 1 ? its.last : its.from_plain;
    }
    for (const Value* value : values) {
      bool converted = function_.is_output(value) && makes_last(value);
      for (const Node* user : value->users) converted = converted || wants_last(user) != makes_last(value);
      // One that only an index map writes is written in any order.
      const bool free = value->producer != nullptr && op_def(*value->producer).fusion == FusionClass::kInjective &&
                        value->users.size() == 1 && !function_.is_output(value);
      if (converted && !free) cost += kConvertedElement * double(element_count(value->type.shape).value());
    }
    return cost;
  }

  const Function& function_;
  const CostTable& costs_;
  std::vector<const Node*> nodes_;
  std::vector<int> ways_;  ///< of convolutions plain, last, from plain; of others plain, last
};

/// Conversions that the kernel before them takes in.
double free_of(const Graph& graph) {
  double cost = 0;
  for (const Node* node : graph.main.nodes()) {
    if (!node->is(op::transpose)) continue;
    const Node* maker = node->inputs[0]->producer;
    if (maker != nullptr && op_def(*maker).fusion == FusionClass::kInjective && node->inputs[0]->users.size() == 1 &&
        !graph.main.is_output(node->inputs[0]) && !graph.main.is_output(node->result()))
      cost += kConvertedElement * double(element_count(node->result()->type.shape).value());
  }
  return cost;
}

TEST(ChooseForms, IsTheLeastOfAllCombinationsForSmallNetworks) {
  int checked = 0, forms_seen = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const RandomNetwork network(seed);
    // What nothing reads costs nothing when all is done, but did when it was chosen.
    Graph graph = parse_graph(network.text, table());
    const size_t before = graph.main.nodes().size();
    dead_code(graph, fresh_context());
    if (graph.main.nodes().size() != before || network.costs.empty()) continue;
    const Graph taken = altered(network.text, network.costs);
    const double least = Exhaustive(graph, network.costs).least();
    EXPECT_EQ(cost_of(taken, network.costs) - free_of(taken), least)
        << "seed " << seed << "\n" << network.text << print(taken, table());
    ++checked;
    for (const Decision& decision : decisions_of(taken)) forms_seen |= decision == kPlain ? 1 : decision == kLast ? 2 : 4;
  }
  EXPECT_GE(checked, 60);
  EXPECT_EQ(forms_seen, 7) << "all three ways are taken somewhere";
}

TEST(ChooseForms, CandidatesSayWhatTheirConversionsCost) {
  const CostTable costs{{"A", {60, 20, 99}}, {"B", {60, 20, 99}}};
  Graph graph = parse_graph(function(4, 8, "  %a = " + conv("%x", "A", 4, 4) + "  %b = " + conv("%a", "B", 4, 8) +
                                               "  return %b\n"),
                            table());
  std::vector<NodeDecision> decisions;
  PassContext context;
  context.decisions = &decisions;
  context.candidates = true;
  alter_layout(graph, PricedForms(costs), context);
  ASSERT_EQ(decisions.size(), 2u);
  for (const NodeDecision& one : decisions) {
    const bool is_first = one.origin.at(0) == "A";
    EXPECT_EQ(one.decision, kLast);
    EXPECT_FALSE(one.candidates.empty());
    for (const Candidate& candidate : one.candidates) {
      const bool from_plain = candidate.decision == kPlain || candidate.decision.knob("plain_data") != 0;
      const bool on_the_way = candidate.decision.form.starts_with("winograd") || candidate.decision.form == "gemm";
      // The data of A lie as the model has them, those of B as A leaves them; B wants the one, who gets the output the other.
      const double data = on_the_way || from_plain == is_first ? 0 : 16;
      const bool makes_plain = candidate.decision == kPlain;
      const double result = is_first ? (makes_plain ? 16 : 0) : (makes_plain ? 0 : 32);
      EXPECT_EQ(candidate.conversions, data + result) << one.origin.at(0) << " " << to_string(candidate.decision);
    }
  }
}

}  // namespace
}  // namespace gantry
