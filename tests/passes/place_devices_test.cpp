// Which device runs a node, and the copies between devices.
#include "host/ops/device_copy.h"
#include "host/ops/movement.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

constexpr Op<NoAttrs> kHostOnly{"host_only"};

/// The op set and `host_only`, whose loop nest is written for CPUs only.
class PlacementOps : public OpTable {
 public:
  PlacementOps() {
    host_only_.handle = &kHostOnly;
    host_only_.name = kHostOnly.name();
    host_only_.infer = [](const Node& node, Function&) {
      return std::vector<TensorType>{node.inputs.at(0)->type};
    };
    host_only_.compute = [](const Node&, const std::vector<Tensor>& in) {
      return extern_kernel(
          {in[0]}, {in[0].shape()}, {in[0].dtype()}, [](LoopBuilder&) {}, "host_only");
    };
  }
  const OpBase* find(std::string_view name) const override {
    return name == host_only_.name ? &host_only_ : table().find(name);
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names = table().names();
    names.push_back(host_only_.name);
    return names;
  }
  std::vector<TensorType> infer(const Node& node, Function& function) const override {
    return node.op == &host_only_ ? host_only_.infer(node, function) : table().infer(node, function);
  }

 private:
  OpDef host_only_;
};

const OpTable& ops() {
  static const PlacementOps table;
  return table;
}

Graph placed_graph(const std::string& text) {
  Graph graph = parse_graph(text, ops());
  place_devices(graph, fresh_context());
  verify(graph, ops(), "place_devices");
  const std::string printed = print(graph, ops());
  EXPECT_EQ(print(parse_graph(printed, ops()), ops()), printed);
  return graph;
}
std::string placed(const std::string& text) {
  return print(placed_graph(text), ops());
}

size_t count_on(const Graph& graph, Placement placement) {
  return static_cast<size_t>(std::ranges::count(graph.main.nodes(), placement, &Node::placement));
}
using Destination = DeviceCopyAttrs::Destination;

size_t copies_to(const Graph& graph, Destination destination) {
  return static_cast<size_t>(std::ranges::count_if(graph.main.nodes(), [&](const Node* node) {
    const auto* attrs = node->match(op::device_copy);
    return attrs != nullptr && attrs->destination == destination;
  }));
}
size_t copies(const Graph& graph) {
  return count_of(graph, op::device_copy);
}

TEST(PlaceDevices, KeepsWhatTheGpuCanRunWithoutCopies) {
  EXPECT_EQ(placed(R"(fn @main(%x: Tensor[(4, 8), f32]) -> Tensor[(32), f32] {
  %0 = nn.relu(%x)  // Relu_0
  %1 = reshape(%0, shape=(32))
  return %1
}
)"),
            R"(fn @main(%x: Tensor[(4, 8), f32]) -> Tensor[(32), f32] {
  %0 = nn.relu(%x) on gpu  // Relu_0
  %1 = reshape(%0, shape=(32)) on gpu
  return %1
}
)");
}

TEST(PlaceDevices, CopiesAValueOnceADirectionAroundNodesOfTheCpu) {
  EXPECT_EQ(placed(R"(fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(N, 8), f32] {
  %0 = nn.relu(%x)  // Relu_0
  %1 = host_only(%0)  // Sort_0
  %2 = host_only(%0)  // Sort_1
  %3 = add(%1, %0)
  %4 = add(%1, %2)
  %5 = add(%3, %4)
  return %5
}
)"),
            R"(fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(N, 8), f32] {
  %0 = nn.relu(%x) on gpu  // Relu_0
  %6 = device_copy(%0, destination=cpu)  // Relu_0
  %1 = host_only(%6) on cpu  // Sort_0
  %2 = host_only(%6) on cpu  // Sort_1
  %7 = device_copy(%1, destination=gpu)  // Sort_0
  %3 = add(%7, %0) on gpu
  %8 = device_copy(%2, destination=gpu)  // Sort_1
  %4 = add(%7, %8) on gpu
  %5 = add(%3, %4) on gpu
  return %5
}
)");
}

TEST(PlaceDevices, NeedsNoCopiesOfParametersAndConstants) {
  const Graph graph =
      placed_graph(R"(fn @main(%x: Tensor[(40, 1000), f32]) -> (Tensor[(40, 1000), f32], Tensor[(40, 1000), f32]) {
  %0 = reshape(%x, shape=(40, 1000))
  %1 = host_only(%0)
  %2 = add(%x, const(f32, [], [1]))
  return %1, %2
}
)");
  EXPECT_EQ(copies(graph), 0u);
}

TEST(PlaceDevices, ViewsCrossAsTheValueThatTheyShow) {
  const Graph graph = placed_graph(R"(fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(8*N), f32] {
  %0 = nn.relu(%x)
  %1 = reshape(%0, shape=(8*N))
  %2 = host_only(%1)
  %3 = reshape(%0, shape=(8*N))
  %4 = host_only(%3)
  %5 = nn.relu(%1)
  %6 = add(%5, %4)
  %7 = add(%6, %2)
  return %7
}
)");
  EXPECT_EQ(copies_to(graph, Destination::kCpu), 1u);
  EXPECT_EQ(count_on(graph, Placement::kCpu), 4u);
  EXPECT_EQ(count_of(graph, op::reshape), 3u);
}

TEST(PlaceDevices, LeavesSmallNodesBetweenNodesOfTheCpuThere) {
  const Graph graph = placed_graph(R"(fn @main(%x: Tensor[(8), f32]) -> Tensor[(8), f32] {
  %0 = host_only(%x)
  %1 = nn.relu(%0)
  %2 = exp(%1)
  %3 = host_only(%2)
  %4 = tanh(%3)
  return %4
}
)");
  EXPECT_EQ(copies(graph), 0u);
  EXPECT_EQ(count_on(graph, Placement::kCpu), 5u);
}

TEST(PlaceDevices, MovesNoSmallNodeWhoseResultTheGpuReads) {
  const Graph graph =
      placed_graph(R"(fn @main(%x: Tensor[(8), f32], %y: Tensor[(N, 8), f32]) -> Tensor[(N, 8), f32] {
  %0 = host_only(%x)
  %1 = nn.relu(%0)
  %2 = exp(%1)
  %3 = nn.relu(%y)
  %4 = add(%3, %2)
  return %4
}
)");
  EXPECT_EQ(copies(graph), 1u);
  EXPECT_EQ(count_on(graph, Placement::kGpu), 4u);
}

TEST(PlaceDevices, MovesNoLargeNode) {
  EXPECT_EQ(copies(placed_graph(R"(fn @main(%x: Tensor[(100000), f32]) -> Tensor[(100000), f32] {
  %0 = host_only(%x)
  %1 = nn.relu(%0)
  %2 = host_only(%1)
  return %2
}
)")),
            2u);
}

TEST(PlaceDevices, LooksIntoFusedNodes) {
  const Graph graph = placed_graph(R"(fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(N, 8), f32] {
  %0 = fused(%x) fn @host(%a: Tensor[(N, 8), f32]) -> Tensor[(N, 8), f32] {
    %0 = nn.relu(%a)
    %1 = host_only(%0)
    return %1
  }  // Relu_0, Sort_0
  %1 = fused(%0) fn @relu(%a: Tensor[(N, 8), f32]) -> Tensor[(N, 8), f32] {
    %0 = nn.relu(%a)
    return %0
  }
  return %1
}
)");
  EXPECT_EQ(graph.main.nodes().front()->placement, Placement::kCpu);
  EXPECT_EQ(graph.main.nodes().back()->placement, Placement::kGpu);
}

/// A kernel that joins so many vectors, each of three elements or of an extent of its own.
std::string joining(size_t parts, bool open) {
  const auto vector_of = [](const Dim& extent) { return TensorType{DType::kF32, {extent}}.str(); };
  std::string names, parameters;
  Dim total = 0;
  for (size_t i = 0; i < parts; ++i) {
    const Dim extent = open ? Dim::symbol(fmt::format("D{}", i)) : Dim(3);
    names += fmt::format("{}%p{}", i == 0 ? "" : ", ", i);
    parameters += fmt::format("{}%p{}: {}", i == 0 ? "" : ", ", i, vector_of(extent));
    total = total + extent;
  }
  const std::string signature = fmt::format("({}) -> {} {{\n", parameters, vector_of(total));
  return "fn @main" + signature + "  %0 = fused(" + names + ") fn @join" + signature + "    %0 = concatenate(" +
         names + ", axis=0)\n    return %0\n  }\n  return %0\n}\n";
}

TEST(PlaceDevices, LeavesWhatHasMoreParametersThanAKernelThereTakesOnTheCpu) {
  const auto place_of = [](size_t parts, bool open) {
    return placed_graph(joining(parts, open)).main.nodes().front()->placement;
  };
  EXPECT_EQ(place_of(300, false), Placement::kGpu);
  EXPECT_EQ(place_of(600, false), Placement::kCpu);
  EXPECT_EQ(place_of(300, true), Placement::kCpu);
}

}  // namespace
}  // namespace gantry
