// Tensors without elements, and those of the most dimensions that a module takes.
#include <limits>

#include "host/ops/op.h"
#include "tests/end_to_end/control_models.h"

namespace gantry::end_to_end {
namespace {

/// What a model computes of x, f32 (0, 3): that many elements, all of that value.
struct EmptyCase {
  const char* what;
  std::string nodes;
  size_t count = 0;
  double value = 0;
};

std::string ints(const std::string& name, const std::vector<int64_t>& values) {
  std::string text = fmt::format("attribute {{ name: '{}' type: INTS ", name);
  for (const int64_t value : values) text += fmt::format("ints: {} ", value);
  return text + "} ";
}
std::string flag(const std::string& name, int64_t value) {
  return fmt::format("attribute {{ name: '{}' type: INT i: {} }} ", name, value);
}
/// An initialiser of that many ones, of ONNX's number for their type and the field that has such.
std::string ones_of(int type, const char* field, const std::string& name, const std::vector<int64_t>& dims) {
  std::string text = fmt::format("initializer {{ name: '{}' data_type: {} ", name, type);
  int64_t count = 1;
  for (const int64_t dim : dims) {
    text += fmt::format("dims: {} ", dim);
    count *= dim;
  }
  for (int64_t i = 0; i < count; ++i) text += fmt::format("{}: 1 ", field);
  return text + "} ";
}
/// Of f32 or i64.
std::string ones(const std::string& name, const std::vector<int64_t>& dims, bool whole = false) {
  return whole ? ones_of(7, "int64_data", name, dims) : ones_of(1, "float_data", name, dims);
}
/// Of u8.
std::string byte_ones(const std::string& name, const std::vector<int64_t>& dims) {
  return ones_of(2, "int32_data", name, dims);
}

std::vector<EmptyCase> empty_cases() {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string as_image = node("Unsqueeze", "x spatial", "image");
  const std::string spatial = "initializer { name: 'spatial' dims: 2 data_type: 7 int64_data: [2, 3] } ";
  const std::string first = "initializer { name: 'first' dims: 1 data_type: 7 int64_data: 0 } ";
  const std::string steps = ones("second", {1}, true) + node("Unsqueeze", "x second", "steps");
  const std::string bytes = node("Cast", "x", "bytes", flag("to", 2));  // u8
  return {
      {"Relu", node("Relu", "x", "y")},
      {"Add", ones("one", {3}) + node("Add", "x one", "y")},
      {"ReduceSum", first + node("ReduceSum", "x first", "y", flag("keepdims", 0)), 3, 0},
      {"ReduceProd", node("ReduceProd", "x", "y", axis_list(0)), 3, 1},
      {"ReduceMax", node("ReduceMax", "x", "y", axis_list(0)), 3, -infinity},
      {"ReduceMin", node("ReduceMin", "x", "y", axis_list(0)), 3, infinity},
      {"ReduceMean", node("ReduceMean", "x", "y", axis_list(0)), 3, std::nan("")},
      {"ReduceSum of rows", ones("last", {1}, true) + node("ReduceSum", "x last", "y", flag("keepdims", 0))},
      {"MatMul over nothing",
       node("Transpose", "x", "turned", ints("perm", {1, 0})) + node("MatMul", "turned x", "y"), 9, 0},
      {"MatMul of no rows", ones("w", {3, 5}) + node("MatMul", "x w", "y")},
      {"Gemm", ones("w", {3, 5}) + ones("b", {5}) + node("Gemm", "x w b", "y")},
      {"MatMulInteger", bytes + byte_ones("w", {3, 5}) + node("MatMulInteger", "bytes w", "sums") +
                            node("Cast", "sums", "y", flag("to", 1))},
      {"Softmax", node("Softmax", "x", "y", flag("axis", 1))},
      {"Softmax of nothing", node("Softmax", "x", "y", flag("axis", 0))},
      {"Concat", ones("w", {2, 3}) + node("Concat", "x w", "y", flag("axis", 0)), 6, 1},
      {"Pad",
       "initializer { name: 'pads' dims: 4 data_type: 7 int64_data: [1, 1, 1, 1] } " +
           node("Pad", "x pads", "y"),
       10, 0},
      {"Tile", "initializer { name: 'twice' dims: 2 data_type: 7 int64_data: [2, 2] } " +
                   node("Tile", "x twice", "y")},
      {"CumSum",
       "initializer { name: 'zeroth' data_type: 7 int64_data: 0 } " + node("CumSum", "x zeroth", "y")},
      {"TopK", ones("k", {1}, true) + node("TopK", "x k", "y places")},
      {"Conv", spatial + as_image + ones("w", {4, 3, 1, 1}) + node("Conv", "image w", "y")},
      {"QLinearConv", spatial + bytes + node("Unsqueeze", "bytes spatial", "image") +
                          byte_ones("w", {4, 3, 1, 1}) + byte_ones("point", {}) +
                          node("QLinearConv", "image two point w two point two point", "pixels") +
                          node("Cast", "pixels", "y", flag("to", 1))},
      {"GlobalAveragePool", spatial + as_image + node("GlobalAveragePool", "image", "y")},
      {"MaxPool", spatial + as_image + node("MaxPool", "image", "y", ints("kernel_shape", {1, 1}))},
      {"LSTM without a step",
       steps + ones("w", {1, 8, 3}) + ones("r", {1, 8, 2}) +
           "node { op_type: 'LSTM' name: 'lstm' input: 'steps' input: 'w' input: 'r' output: '' output: "
           "'y' " +
           flag("hidden_size", 2) + "} ",
       2, 0},
  };
}

/// A model of x, f32 (N, 3).
std::string model_of_rows(const std::string& nodes) {
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(model(nodes, "y")));
  auto& shape =
      *proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.add_dim()->set_dim_value(3);
  return proto.SerializeAsString();
}

Graph graph_of(const EmptyCase& one, bool is_known) {
  ImportOptions options;
  if (is_known) options.shapes["x"] = {0, 3};
  return import_onnx_bytes(model_of_rows(one.nodes), "", options);
}

void expect_empty_cases(bool is_known, const testing::CompileSettings& settings) {
  for (const EmptyCase& one : empty_cases()) {
    SCOPED_TRACE(one.what);
    const Graph graph = graph_of(one, is_known);
    testing::LocalModel program(testing::compile_to_bytes(graph, settings), settings.threads,
                                testing::device_for(settings.target));
    const Floats y = floats(program.run({tensor({}, {0, 3})}).at(0));
    EXPECT_EQ(y.size(), one.count);
    for (const float value : y) {
      if (std::isnan(one.value))
        EXPECT_TRUE(std::isnan(value)) << value;
      else
        EXPECT_EQ(static_cast<double>(value), one.value);
    }
  }
}

TEST(ShapeEdges, TensorsWithoutElementsWhoseSizeIsOpen) {
  for (const int level : {0, 3}) expect_empty_cases(false, {.opt_level = level});
}

TEST(ShapeEdges, TensorsWithoutElementsWhoseSizeIsKnown) {
  for (const int level : {0, 3}) expect_empty_cases(true, {.opt_level = level});
}

TEST(ShapeEdges, TensorsWithoutElementsOnTheEmulatedGpu) {
  for (const bool is_known : {false, true})
    expect_empty_cases(is_known, {.target = testing::gpu_test_target("+checks")});
}

// There is nothing to do for AMX, vectors of bytes and of bf16, and bfmmla. Not run: few machines have them.
TEST(ShapeEdges, TensorsWithoutElementsAreNoneForTileUnits) {
  const std::pair<const char*, const char*> ways[] = {
      {"sapphirerapids", "auto"}, {"sapphirerapids", "bf16"}, {"znver4", "auto"},
      {"znver4", "fp32-split"},   {"neoverse-v1", "bf16"},    {"neoverse-v1", "fp32-split3"}};
  for (const auto& [target, precision] : ways) {
    for (const EmptyCase& one : empty_cases()) {
      SCOPED_TRACE(fmt::format("{} on {} in {}", one.what, target, precision));
      EXPECT_NO_THROW(
          testing::compile_to_bytes(graph_of(one, true), {.target = target, .precision = precision}));
    }
  }
}

/// y: the columns of x, f32 (N, M), one behind the other, then ones; and the same between zeros. Places in
/// what is not there are divided by its extents.
TEST(ShapeEdges, PartsThatAreEmpty) {
  constexpr size_t kOnes = 40;
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(model(
      "initializer { name: 'flat' dims: 1 data_type: 7 int64_data: -1 } "
      "initializer { name: 'pads' dims: 2 data_type: 7 int64_data: [20, 20] } " +
          ones("w", {static_cast<int64_t>(kOnes)}) + node("Transpose", "x", "turned", ints("perm", {1, 0})) +
          node("Reshape", "turned flat", "columns") + node("Concat", "columns w", "y", flag("axis", 0)) +
          node("Pad", "columns pads", "z"),
      "y z")));
  proto.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->add_dim()
      ->set_dim_param("M");
  const Graph graph = import_onnx_bytes(proto.SerializeAsString(), "");
  std::vector<testing::CompileSettings> ways{
      {.opt_level = 0}, {.opt_level = 3}, {.target = testing::gpu_test_target("+checks")}};
  for (const char* target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    if (testing::runs_here(target)) ways.push_back({.target = target});
  }
  for (const testing::CompileSettings& way : ways) {
    SCOPED_TRACE(way.target);
    testing::LocalModel program(testing::compile_to_bytes(graph, way), way.threads,
                                testing::device_for(way.target));
    for (const auto& [rows, columns] : {std::pair<size_t, size_t>{2, 3}, {0, 5}, {5, 0}, {0, 0}, {7, 9}}) {
      Floats x(rows * columns), listed;
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 2;
      for (size_t i = 0; i < x.size(); ++i) listed.push_back(x[i % rows * columns + i / rows]);
      Floats y = listed, z(20, 0);
      y.insert(y.end(), kOnes, 1);
      z.insert(z.end(), listed.begin(), listed.end());
      z.insert(z.end(), 20, 0);
      const auto results =
          program.run({tensor(x, {static_cast<int64_t>(rows), static_cast<int64_t>(columns)})});
      EXPECT_EQ(floats(results.at(0)), y) << rows << " x " << columns;
      EXPECT_EQ(floats(results.at(1)), z) << rows << " x " << columns;
    }
  }
}

/// 16 axes of 2: the bits of an element's place are its position.
void expect_results_of_16_axes(const Runner& run) {
  constexpr int kRank = 16, kCount = 1 << kRank;
  std::string dims, turned;
  for (int i = 0; i < kRank; ++i) {
    dims += i == 0 ? "2" : ", 2";
    turned += fmt::format("{}{}", i == 0 ? "" : ", ", kRank - 1 - i);
  }
  const std::string type = fmt::format("Tensor[({}), f32]", dims);
  std::string half = "2", alternate = "2";
  for (int i = 1; i < kRank / 2; ++i) half += ", 2";
  for (int i = 1; i < kRank; ++i) alternate += i % 2 == 0 ? ", 2" : ", 1";
  const Graph graph = parse_graph(
      fmt::format("fn @main(%x: {0}, %b: Tensor[({1}), f32]) -> ({0}, Tensor[({2}), f32], {0}) {{\n"
                  "  %0 = transpose(%x, axes=[{3}])\n"
                  "  %1 = sum(%x, axes=[0, 2, 4, 6, 8, 10, 12, 14], keepdims=false)\n"
                  "  %2 = add(%x, %b)\n  return %0, %1, %2\n}}\n",
                  type, alternate, half, turned),
      op_set());
  Floats x(kCount), b(1 << (kRank / 2));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1021);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i) / 4;
  std::vector<int64_t> shape(kRank, 2), shape_b(kRank, 2);
  for (size_t i = 1; i < shape_b.size(); i += 2) shape_b[i] = 1;
  const auto results = run(graph, {tensor(x, shape), tensor(b, shape_b)});
  Floats sums(b.size(), 0);
  for (size_t i = 0; i < x.size(); ++i) {
    size_t reversed = 0, kept = 0, dropped = 0;
    for (size_t axis = 0; axis < kRank; ++axis) {
      const size_t bit = i >> (kRank - 1 - axis) & 1;
      reversed |= bit << axis;
      (axis % 2 == 0 ? dropped : kept) = (axis % 2 == 0 ? dropped : kept) * 2 + bit;
    }
    ASSERT_EQ(results.at(0)->as<float>()[reversed], x[i]) << i;
    ASSERT_EQ(results.at(2)->as<float>()[i], x[i] + b[dropped]) << i;
    sums[kept] += x[i];
  }
  EXPECT_EQ(floats(results.at(1)), sums);
}

TEST(ShapeEdges, TensorsOf16Axes) {
  for (const int opt_level : {0, 3}) expect_results_of_16_axes(run_here("native", opt_level));
}

}  // namespace
}  // namespace gantry::end_to_end
