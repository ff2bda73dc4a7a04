// Branches that data choose, compiled: with results of other sizes, inside of each other, and beside what is
// static.
#include "host/ops/control.h"
#include "tests/end_to_end/control_models.h"

namespace gantry::end_to_end {
namespace {

TEST(ControlFlow, BranchesGiveResultsOfOtherSizes) {
  const std::string bytes =
      model(sum_is_more("x", "zero", "c") +
                node("If", "c", "y",
                     branches(node("Concat", "x x", "both", axis(0)), "both", node("Neg", "x", "minus"), "minus")) +
                node("Mul", "y two", "z"),
            "y z");
  expect_results(bytes, [](const Floats& x) {
    Floats y = x;
    if (sum(x) > 0) {
      y.insert(y.end(), x.begin(), x.end());
    } else {
      y = each(y, [](float v) { return -v; });
    }
    return std::vector<Floats>{y, each(y, [](float v) { return 2 * v; })};
  });
}

TEST(ControlFlow, BranchesGiveResultsOfOtherRanks) {
  const std::string bytes =
      model(sum_is_more("x", "zero", "c") + node("If", "c", "s", branches("", "two", node("Neg", "x", "minus"), "minus")) +
                node("Mul", "x s", "y") + node("Abs", "y", "z"),
            "y z");
  expect_results(bytes, [](const Floats& x) {
    const Floats y = sum(x) > 0 ? each(x, [](float v) { return 2 * v; }) : each(x, [](float v) { return v * -v; });
    return std::vector<Floats>{y, each(y, [](float v) { return std::fabs(v); })};
  });
}

TEST(ControlFlow, BranchesLieInsideOfEachOtherAndReadWhatIsAroundThem) {
  const std::string inner =
      sum_is_more("x", "ten", "d") +
      node("If", "d", "w", branches(node("Add", "r ten", "a"), "a", node("Mul", "m r", "b"), "b"));
  const std::string bytes =
      model(node("Relu", "x", "r") + sum_is_more("x", "zero", "c") +
                node("If", "c", "y",
                     branches(node("Mul", "x two", "m") + inner + node("Add", "w m", "s"), "s", node("Abs", "x", "q"), "q")),
            "y");
  expect_results(bytes, [](const Floats& x) {
    Floats y;
    for (const float v : x) {
      const float r = std::max(v, 0.0f);
      y.push_back(sum(x) > 10 ? r + 10 + 2 * v : sum(x) > 0 ? 2 * v * r + 2 * v : std::fabs(v));
    }
    return std::vector<Floats>{y};
  });
}

TEST(ControlFlow, BranchesReturnWhatIsOutsideOfThem) {
  const std::string constant = node(
      "Constant", "", "five", "attribute { name: 'value' type: TENSOR t { dims: 1 data_type: 1 float_data: 5 } } ");
  const std::string bytes =
      model(node("Abs", "x", "a") + sum_is_more("x", "zero", "c") +
                node("If", "c", "p q r",
                     branches("", "x zero a", constant + node("Identity", "a", "i"), "a two five")) +
                node("Add", "p q", "z"),
            "z r");
  // The third results are of N elements and of one.
  expect_results(bytes, [](const Floats& x) {
    const bool more = sum(x) > 0;
    Floats z, absolute = each(x, [](float v) { return std::fabs(v); });
    for (const float v : x) z.push_back(more ? v : std::fabs(v) + 2);
    return std::vector<Floats>{z, more ? absolute : Floats{5}};
  });
}

TEST(ControlFlow, BranchesHaveSizesThatTheirOwnDataGive) {
  const std::string positive =
      node("Greater", "x zero", "mask") + node("Compress", "x mask", "kept", axis(0)) + node("Mul", "kept two", "k");
  const std::string bytes = model(
      sum_is_more("x", "zero", "c") + node("If", "c", "y", branches(positive, "k", node("Neg", "x", "n"), "n")) +
          node("ReduceSum", "y", "total", "attribute { name: 'keepdims' type: INT i: 0 } "),
      "y total");
  expect_results(bytes, [](const Floats& x) {
    Floats y;
    for (const float v : x) {
      if (sum(x) <= 0) y.push_back(-v);
      if (sum(x) > 0 && v > 0) y.push_back(2 * v);
    }
    return std::vector<Floats>{y, Floats{sum(y)}};
  });
}

TEST(ControlFlow, AFunctionOfTheModelIsCalledInABranch) {
  const std::string bytes = [&] {
    onnx::ModelProto proto;
    proto.ParseFromString(model(sum_is_more("x", "zero", "c") +
                                    node("If", "c", "y",
                                         branches(node("Twice", "x", "t", "domain: 'own' "), "t", node("Neg", "x", "n"), "n")),
                                "y"));
    EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(
        "opset_import { domain: 'own' version: 1 } functions { name: 'Twice' domain: 'own' input: 'p' output: 'q' "
        "opset_import { version: 16 } " +
            sum_is_more("p", "limit", "d") +
            node("If", "d", "q", branches(node("Add", "p p", "e"), "e", node("Identity", "p", "f"), "f")) + "}",
        &proto));
    auto& function = *proto.mutable_functions(0);
    onnx::NodeProto& limit = *function.add_node();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "op_type: 'Constant' output: 'limit' attribute { name: 'value_float' type: FLOAT f: 10 }", &limit));
    for (int i = function.node_size() - 1; i > 0; --i) function.mutable_node()->SwapElements(i, i - 1);
    return proto.SerializeAsString();
  }();
  expect_results(bytes, [](const Floats& x) {
    Floats y;
    for (const float v : x) y.push_back(sum(x) > 10 ? 2 * v : sum(x) > 0 ? v : -v);
    return std::vector<Floats>{y};
  });
}

TEST(ControlFlow, ABranchThatTheShapesDoNotFitEndsTheRunThatTakesIt) {
  const std::string shape = "initializer { name: 'pair' dims: 2 data_type: 7 int64_data: [2, 2] } ";
  const std::string bytes = model(shape + sum_is_more("x", "zero", "c") +
                                      node("If", "c", "y",
                                           branches(node("Reshape", "x pair", "p") + node("ReduceMax", "p", "s", axis_list(0)),
                                                    "s", node("Neg", "x", "n"), "n")),
                                  "y");
  ImportOptions options;
  options.shapes["x"] = {3};
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  testing::LocalModel program(testing::compile_to_bytes(import_onnx_bytes(bytes, "", options)));
  EXPECT_EQ(floats(program.run({tensor({-1, -2, 1})}).at(0)), (Floats{1, 2, -1}));
  EXPECT_THAT(warnings, ::testing::Contains(::testing::HasSubstr("node If_y (If) takes its then_branch")));
  try {
    program.run({tensor({1, 2, 3})});
    FAIL() << "three elements were made two pairs";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("node If_y (If) takes its then_branch, which these shapes do not fit"));
  }
}

TEST(ControlFlow, ReadsBackFromItsText) {
  const std::string bytes = model(
      sum_is_more("x", "zero", "c") +
          node("If", "c", "y", branches(node("Concat", "x x", "both", axis(0)), "both", node("Neg", "x", "minus"), "minus")),
      "y");
  const Graph graph = import_onnx_bytes(bytes, "");
  ASSERT_TRUE(has_control_flow(graph.main));
  expect_reads_back(graph);
}

}  // namespace
}  // namespace gantry::end_to_end
