// Sequences and optionals of which only the running model knows what they hold, compiled.
#include "host/graph/late_values.h"
#include "tests/end_to_end/control_models.h"

namespace gantry::end_to_end {
namespace {

const std::string kNumbers =
    "initializer { name: 'n0' data_type: 7 int64_data: 0 } initializer { name: 'n1' data_type: 7 int64_data: "
    "1 } "
    "initializer { name: 'nm1' data_type: 7 int64_data: -1 } "
    "initializer { name: 'v0' dims: 1 data_type: 7 int64_data: 0 } ";

/// m: the largest element as an i64.
const std::string kLargest =
    node("ReduceMax", "x", "largest", "attribute { name: 'keepdims' type: INT i: 0 } ") +
    node("Cast", "largest", "m", "attribute { name: 'to' type: INT i: 7 } ");
int64_t largest(const Floats& x) {
  return static_cast<int64_t>(*std::ranges::max_element(x));
}
std::string as_float(const std::string& input, const std::string& result) {
  return node("Cast", input, result, "attribute { name: 'to' type: INT i: 1 } ");
}
std::string loop(const std::string& count, const std::string& states, const std::string& outputs,
                 const std::string& body) {
  std::string text = fmt::format("node {{ op_type: 'Loop' name: 'loop' input: '{}' input: '' ", count);
  std::istringstream words(states);
  for (std::string word; words >> word;) text += fmt::format("input: '{}' ", word);
  words = std::istringstream(outputs);
  for (std::string word; words >> word;) text += fmt::format("output: '{}' ", word);
  return text + body + "} ";
}

/// t: s with the first i + 1 elements of x as its tensor i.
const std::string kGrow = node("Add", "i n1", "next") + node("Unsqueeze", "next v0", "end") +
                          node("Slice", "x v0 end", "part") + node("SequenceInsert", "s part i", "t") +
                          node("Identity", "c", "again");
const std::string kGrown = kNumbers + kLargest + node("SequenceConstruct", "x", "one") +
                           loop("m", "one", "grown", graph_attribute("body", kGrow, "again t", "i c s"));

std::vector<Floats> grown(const Floats& x) {
  std::vector<Floats> list{x};
  for (int64_t i = 0; i < largest(x); ++i) {
    const auto end = x.begin() + std::min(i + 1, static_cast<int64_t>(x.size()));
    list.insert(list.begin() + i, Floats(x.begin(), end));
  }
  return list;
}
Floats joined(const std::vector<Floats>& list) {
  Floats all;
  for (const Floats& one : list) all.insert(all.end(), one.begin(), one.end());
  return all;
}

TEST(Sequence, GrowsInALoop) {
  const std::string bytes = model(kGrown + node("ConcatFromSequence", "grown", "y", axis(0)) +
                                      node("SequenceLength", "grown", "count") + as_float("count", "length") +
                                      node("SequenceAt", "grown nm1", "last"),
                                  "y length last");
  expect_results(bytes, [](const Floats& x) {
    const std::vector<Floats> list = grown(x);
    return std::vector<Floats>{joined(list), Floats{static_cast<float>(list.size())}, list.back()};
  });
}

TEST(Sequence, ShrinksInALoop) {
  // The tensor in the middle goes until there is one left.
  const std::string body =
      graph_attribute("body",
                      node("SequenceLength", "s", "size") + node("Div", "size two_i", "middle") +
                          node("SequenceErase", "s middle", "t") + node("SequenceLength", "t", "left") +
                          node("Greater", "left n1", "again") + node("SequenceAt", "t n0", "first") +
                          node("ReduceSum", "first", "sum", "attribute { name: 'keepdims' type: INT i: 0 } "),
                      "again t sum", "i c s");
  const std::string bytes =
      model("initializer { name: 'two_i' data_type: 7 int64_data: 2 } " + kGrown +
                node("SequenceInsert", "grown x", "more") + loop("", "more", "rest sums", body) +
                node("ConcatFromSequence", "rest", "y", axis(0)),
            "y sums");
  expect_results(bytes, [](const Floats& x) {
    std::vector<Floats> list = grown(x);
    list.push_back(x);
    Floats sums;
    do {
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2));
      sums.push_back(sum(list[0]));
    } while (list.size() > 1);
    return std::vector<Floats>{joined(list), sums};
  });
}

TEST(Sequence, ComesOfBranchesOfOtherLengths) {
  const std::string bytes =
      model(kNumbers + node("Relu", "x", "r") + sum_is_more("x", "zero", "c") +
                node("If", "c", "s",
                     branches(node("SequenceConstruct", "x r x", "p"), "p",
                              node("SequenceConstruct", "r", "q"), "q")) +
                node("ConcatFromSequence", "s", "y", axis(0)) + node("SequenceAt", "s n0", "first"),
            "y first");
  expect_results(bytes, [](const Floats& x) {
    const Floats r = each(x, [](float v) { return std::max(v, 0.0f); });
    return sum(x) > 0 ? std::vector<Floats>{joined({x, r, x}), x} : std::vector<Floats>{r, r};
  });
}

/// The model as one of opset 17, which has SequenceMap.
std::string of_opset_17(const std::string& bytes) {
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(bytes));
  proto.mutable_opset_import(0)->set_version(17);
  return proto.SerializeAsString();
}

TEST(Sequence, IsSplitMappedAndJoinedAgain) {
  // Of [x, 2x] along the second axis, in as many columns as data say.
  const std::string count =
      kNumbers + kLargest + node("Max", "m n0", "least") + node("Add", "least n1", "size");
  const std::string rows = node("Unsqueeze", "x v0", "row") + node("Mul", "row two", "twice") +
                           node("Concat", "row twice", "matrix", axis(0));
  const std::string body = graph_attribute("body", node("Neg", "e", "f"), "f", "e");
  const std::string bytes = of_opset_17(
      model(count + rows + node("SplitToSequence", "matrix size", "s", axis(1)) +
                node("SequenceMap", "s", "t", body) + node("ConcatFromSequence", "t", "y", axis(1)) +
                node("SequenceAt", "t nm1", "last"),
            "y last"));
  expect_results(bytes, [](const Floats& x) {
    const auto size = static_cast<size_t>(std::max<int64_t>(largest(x), 0) + 1);
    const size_t begin = (x.size() - 1) / size * size;
    Floats all, last;
    for (const float factor : {-1.0f, -2.0f}) {
      for (size_t i = 0; i < x.size(); ++i) {
        all.push_back(factor * x[i]);
        if (i >= begin) last.push_back(factor * x[i]);
      }
    }
    return std::vector<Floats>{all, last};
  });
}

TEST(Sequence, PositionsOutsideEndTheRunWithNodeAndPosition) {
  const std::string bytes =
      model(kNumbers + kLargest + node("Neg", "x", "n") + node("SequenceConstruct", "x n", "s") +
                node("SequenceErase", "s m", "left") + node("SequenceAt", "left n0", "y"),
            "y");
  testing::LocalModel program(testing::compile_to_bytes(import_onnx_bytes(bytes, "")));
  EXPECT_EQ(floats(program.run({tensor({0, -3})}).at(0)), (Floats{0, 3}));
  EXPECT_EQ(floats(program.run({tensor({1, -3})}).at(0)), (Floats{1, -3}));
  try {
    program.run({tensor({5, 1})});
    FAIL() << "a tensor was erased that is not there";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(" is 5, and SequenceErase_left"));
  }
  EXPECT_EQ(floats(program.run({tensor({-2, -3})}).at(0)), (Floats{2, 3}));
}

TEST(Sequence, IsTwoOutputs) {
  const Graph graph = import_onnx_bytes(model(kGrown, "grown"), "");
  testing::LocalModel program(testing::compile_to_bytes(graph));
  for (const Floats& x : kInputs) {
    const std::vector<ConstantPtr> outputs = program.run({tensor(x)});
    ASSERT_EQ(outputs.size(), 2u);
    const UnpackedOutputs unpacked =
        unpack_outputs({{graph.main.output_names[0], outputs[0]}, {graph.main.output_names[1], outputs[1]}});
    const std::vector<Floats> list = grown(x);
    ASSERT_EQ(unpacked.tensors.size(), list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      EXPECT_EQ(unpacked.tensors[i].name, fmt::format("grown[{}]", i));
      EXPECT_EQ(floats(unpacked.tensors[i].tensor), list[i]);
    }
  }
}

// --- inputs

/// A model whose input s is a sequence of f32 tensors [n, 2].
std::string model_of_sequence(const std::string& nodes, const std::string& outputs) {
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(of_opset_17(model(nodes, outputs))));
  onnx::ValueInfoProto& input = *proto.mutable_graph()->mutable_input(0);
  input.set_name("s");
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "sequence_type { elem_type { tensor_type { elem_type: 1 shape { dim { } dim { dim_value: 2 } } } } }",
      input.mutable_type()));
  return proto.SerializeAsString();
}

/// The two inputs that matrices of two columns are.
std::vector<ConstantPtr> sequence_inputs(const std::vector<Floats>& matrices) {
  std::vector<int64_t> rows;
  for (const Floats& matrix : matrices)
    rows.insert(rows.end(), {2, static_cast<int64_t>(matrix.size()) / 2, 2});
  static const int64_t none = 0;
  const TensorType type{DType::kI64, {static_cast<int64_t>(matrices.size()), 3}};
  return {tensor(joined(matrices)), make_constant(type, rows.empty() ? &none : rows.data())};
}

TEST(Sequence, IsAnInputOfAnyNumberOfTensors) {
  const std::string body = graph_attribute("body", node("Mul", "e two", "f"), "f", "e");
  const Graph graph = import_onnx_bytes(
      model_of_sequence(kNumbers + node("SequenceMap", "s", "t", body) +
                            node("ConcatFromSequence", "t", "y", axis(0)) +
                            node("SequenceLength", "s", "count") + as_float("count", "length"),
                        "y length"),
      "");
  std::vector<testing::CompileSettings> ways;
  for (const int level : {0, 3}) ways.push_back({.opt_level = level});
  ways.push_back({.target = testing::gpu_test_target("+checks")});
  const std::vector<std::vector<Floats>> lists{
      {{1, 2}}, {{1, 2, 3, 4}, {5, 6}, {}, {7, 8}}, {{1, 2, 3, 4, 5, 6}, {7, 8}}, {{1, 2}}};
  for (const testing::CompileSettings& way : ways) {
    testing::LocalModel program(testing::compile_to_bytes(graph, way), way.threads,
                                testing::device_for(way.target));
    for (const std::vector<Floats>& list : lists) {
      const std::vector<ConstantPtr> outputs = program.run(sequence_inputs(list));
      EXPECT_EQ(floats(outputs.at(0)), each(joined(list), [](float v) { return 2 * v; }));
      EXPECT_EQ(floats(outputs.at(1)), (Floats{static_cast<float>(list.size())}));
    }
  }
}

TEST(Sequence, AsAnInputMustFitItsRows) {
  const Graph graph =
      import_onnx_bytes(model_of_sequence(kNumbers + node("SequenceAt", "s nm1", "y"), "y"), "");
  testing::LocalModel program(testing::compile_to_bytes(graph));
  const std::vector<ConstantPtr> good = sequence_inputs({{1, 2}, {3, 4, 5, 6}});
  EXPECT_EQ(floats(program.run(good).at(0)), (Floats{3, 4, 5, 6}));
  for (const std::vector<Floats>& other : {std::vector<Floats>{{1, 2}}, {{1, 2}, {3, 4, 5, 6, 7, 8}}}) {
    try {
      program.run({good[0], sequence_inputs(other)[1]});
      FAIL() << "rows were taken that do not describe the elements";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("the data do not fit the model"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("and s needs them to be equal"));
    }
  }
  EXPECT_EQ(floats(program.run(good).at(0)), (Floats{3, 4, 5, 6}));
}

TEST(Sequence, AsAnInputReadsBackFromItsText) {
  const Graph graph =
      import_onnx_bytes(model_of_sequence(kNumbers + node("SequenceAt", "s n0", "y"), "y"), "");
  const FusedOpTable table(op_set());
  const std::string text = print(graph, table);
  EXPECT_EQ(print(parse_graph(text, table), table), text);
}

TEST(Optional, HasAValueInOneBranch) {
  const std::string maybe =
      sum_is_more("x", "zero", "c") +
      node("If", "c", "maybe",
           branches(node("Optional", "x", "some"), "some",
                    node("Optional", "", "none",
                         "attribute { name: 'type' type: TYPE_PROTO tp { tensor_type { elem_type: 1 } } } "),
                    "none"));
  const std::string bytes =
      model(maybe + node("OptionalHasElement", "maybe", "p") + as_float("p", "has") +
                node("If", "p", "y",
                     branches(node("OptionalGetElement", "maybe", "value") + node("Neg", "value", "q"), "q",
                              node("Add", "x two", "r"), "r")),
            "has y");
  expect_results(bytes, [](const Floats& x) {
    return sum(x) > 0 ? std::vector<Floats>{Floats{1}, each(x, [](float v) { return -v; })}
                      : std::vector<Floats>{Floats{0}, each(x, [](float v) { return v + 2; })};
  });
  const std::string gives = model(maybe + node("OptionalGetElement", "maybe", "y"), "y");
  testing::LocalModel program(testing::compile_to_bytes(import_onnx_bytes(gives, "")));
  EXPECT_EQ(floats(program.run({tensor({1, 2})}).at(0)), (Floats{1, 2}));
  try {
    program.run({tensor({-1})});
    FAIL() << "an optional without a value gave one";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("OptionalGetElement_y"));
  }
}

TEST(Sequence, ReadsBackFromItsText) {
  const Graph graph = import_onnx_bytes(model(kGrown, "grown"), "");
  expect_reads_back(graph);
}

}  // namespace
}  // namespace gantry::end_to_end
