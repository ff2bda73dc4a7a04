// Sequences and optionals of which only the running model knows what they hold, beside lists of tensors that
// the tests keep themselves.
#include <gmock/gmock.h>

#include "tests/onnx/late_models.h"

namespace gantry {
namespace {

using namespace late_models;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// --- loops

/// t = s with the first i + 1 elements of x behind the others.
const std::string kGrow = node("Add", "i n1", "count") + node("Unsqueeze", "count v0", "end") +
                          node("Slice", "x v0 end", "part") + node("SequenceInsert", "s part", "t") +
                          node("Identity", "c", "again");

TEST(LateSequence, GrowsInAsManyTurnsAsDataSay) {
  const std::string nodes =
      node("SequenceEmpty", "", "empty") +
      node("Loop", "m - empty", "y lengths",
           graph("body", "i c s", kGrow + node("SequenceLength", "t", "length"), "again t length"));
  const Numbers x{1, 2, 3, 4, 5};
  for (const int turns : {0, 1, 4}) {
    Tensors expected;
    Numbers lengths;
    for (int i = 0; i < turns; ++i) {
      expected.push_back(floats({x.begin(), x.begin() + i + 1}));
      lengths.push_back(i + 1);
    }
    std::vector<Numbers> wanted = packed(expected);
    wanted.push_back(lengths);
    EXPECT_EQ(run(nodes, "y lengths", {{"x", floats(x)}, {"m", whole(turns)}}), wanted) << turns;
  }
}

TEST(LateSequence, TakesTensorsOfOtherRanksInALoop) {
  const std::string nodes = node("Squeeze", "first v0", "scalar") +
                            node("SequenceConstruct", "scalar", "one") +
                            node("Loop", "m - one", "y", graph("body", "i c s", kGrow, "again t"));
  const Inputs inputs = {{"x", floats({1, 2, 3})}, {"first", floats({7})}, {"m", whole(2)}};
  EXPECT_EQ(run(nodes, "y", inputs), packed({{{}, {7}}, floats({1}), floats({1, 2})}));
}

TEST(LateSequence, IsInsertedIntoAndErasedFromWhereDataSay) {
  // Of each turn a position to insert at, and one to erase at afterwards.
  const std::string body = kGrow + node("Gather", "at i", "place") +
                           node("SequenceInsert", "s part place", "u") + node("Gather", "off i", "victim") +
                           node("SequenceErase", "u victim", "v") + node("SequenceInsert", "v x nm1", "w");
  const std::string nodes = node("SequenceConstruct", "x x", "two") +
                            node("Loop", "m - two", "y", graph("body", "i c s", body, "again w"));
  const Numbers x{1, 2, 3, 4}, at{2, -1, 0, -4}, off{-3, 1, 3, 0};
  for (const int turns : {0, 1, 2, 3, 4}) {
    Tensors list{floats(x), floats(x)};
    const auto place = [&](double position) {
      return list.begin() + static_cast<std::ptrdiff_t>(
                                position < 0 ? position + static_cast<double>(list.size()) : position);
    };
    for (int i = 0; i < turns; ++i) {
      list.insert(place(at[static_cast<size_t>(i)]), floats({x.begin(), x.begin() + i + 1}));
      list.erase(place(off[static_cast<size_t>(i)]));
      list.insert(place(-1), floats(x));
    }
    const Inputs inputs = {{"x", floats(x)},
                           {"m", whole(turns)},
                           {"at", {{4}, at, DType::kI64}},
                           {"off", {{4}, off, DType::kI64}}};
    EXPECT_EQ(run(nodes, "y", inputs), packed(list)) << turns;
  }
}

TEST(LateSequence, IsHandedOnThroughLoopsInLoops) {
  const std::string inner =
      graph("body", "j d q", node("Identity", "d", "more") + node("SequenceInsert", "q x", "r"), "more r");
  const std::string body = node("Loop", "i - s", "t", inner) + node("SequenceErase", "t n0", "u") +
                           node("SequenceInsert", "u y", "v") + node("Identity", "c", "again");
  const std::string nodes = node("SequenceConstruct", "y", "one") +
                            node("Loop", "m - one", "z", graph("body", "i c s", body, "again v"));
  Tensors list{floats({8})};
  for (int i = 0; i < 3; ++i) {
    list.insert(list.end(), static_cast<size_t>(i), floats({1, 2}));
    list.erase(list.begin());
    list.push_back(floats({8}));
  }
  EXPECT_EQ(run(nodes, "z", {{"x", floats({1, 2})}, {"y", floats({8})}, {"m", whole(3)}}), packed(list));
}

TEST(LateSequence, IsReadInALoopAroundWhichItIs) {
  // Captured: each turn takes another tensor, of another size.
  const std::string nodes =
      node("SequenceConstruct", "a b", "s") + node("SequenceErase", "s gone", "left") +
      node("SequenceInsert", "left c", "t") + node("SequenceLength", "t", "length") +
      node("Loop", "length - n0", "last sums",
           graph("body", "i c k",
                 node("SequenceAt", "t i", "e") + node("ReduceSum", "e", "sum", integer("keepdims", 0)) +
                     node("Identity", "c", "again") + node("Add", "k i", "l"),
                 "again l sum"));
  const auto sums = [&](double gone) {
    return run(nodes, "sums",
               {{"a", floats({1, 9})}, {"b", floats({3})}, {"c", floats({4, 5, 6})}, {"gone", whole(gone)}});
  };
  EXPECT_THAT(sums(0), ElementsAre(ElementsAre(3, 15)));
  EXPECT_THAT(sums(-1), ElementsAre(ElementsAre(10, 15)));
}

// --- branches

TEST(LateSequence, ComesOfBranchesWithUnlikeNumbersOfTensors) {
  const std::string nodes = kMore + node("If", "more", "s",
                                         branches(node("SequenceConstruct", "a b c", "p"), "p",
                                                  node("SequenceConstruct", "b", "q"), "q"));
  EXPECT_EQ(run(nodes, "s", three_and(1)), packed({kThree[0].second, kThree[1].second, kThree[2].second}));
  EXPECT_EQ(run(nodes, "s", three_and(0)), packed({kThree[1].second}));
}

TEST(LateSequence, ComesOfABranchThatGivesNoTensor) {
  const std::string nodes =
      kMore +
      node("If", "more", "s",
           branches(node("SequenceEmpty", "", "p"), "p", node("SequenceConstruct", "b c", "q"), "q")) +
      node("SequenceLength", "s", "length");
  EXPECT_EQ(run(nodes, "s", three_and(0)), packed({kThree[1].second, kThree[2].second}));
  EXPECT_THAT(run(nodes, "length s", three_and(1)), ElementsAre(ElementsAre(0), IsEmpty(), IsEmpty()));
}

TEST(LateSequence, OfATensorAndASequenceIsRefused) {
  const std::string nodes =
      kMore +
      node("If", "more", "s", branches(node("SequenceConstruct", "a", "p"), "p", node("Neg", "a", "q"), "q"));
  EXPECT_THAT(error_of(nodes, "s", three_and(0)), HasSubstr("a tensor and a sequence in one place"));
}

// --- one tensor, and all of them

TEST(LateSequence, GivesTheTensorAtAPosition) {
  const std::string nodes = kTwoOfThree + node("SequenceAt", "s at", "pick") + node("Shape", "pick", "shape");
  EXPECT_THAT(run(nodes, "pick shape", three_without(1, 1)),
              ElementsAre(ElementsAre(4, 5, 6), ElementsAre(3)));
  EXPECT_THAT(run(nodes, "pick shape", three_without(0, -2)), ElementsAre(ElementsAre(3), ElementsAre(1)));
  EXPECT_THAT(run(nodes, "pick shape", three_without(2, -2)), ElementsAre(ElementsAre(1, 2), ElementsAre(2)));
}

TEST(LateSequence, PositionsOutsideNameTheNodeAndThePosition) {
  const std::string at = kTwoOfThree + node("SequenceAt", "s at", "pick");
  EXPECT_THAT(error_of(at, "pick", three_without(1, 2)), HasSubstr("1 is not 2 for pick"));
  EXPECT_THAT(error_of(at, "pick", three_without(1, -3)), HasSubstr("-2 is not -3 for pick"));
  const std::string erased = kTwoOfThree + node("SequenceErase", "s at", "shorter");
  EXPECT_THAT(error_of(erased, "shorter", three_without(1, 2)), HasSubstr("1 is not 2 for shorter"));
  const std::string inserted = kTwoOfThree + node("SequenceInsert", "s a at", "longer");
  EXPECT_THAT(error_of(inserted, "longer", three_without(1, 3)), HasSubstr("2 is not 3 for longer"));
  EXPECT_EQ(error_of(inserted, "longer", three_without(1, 2)), "no error");
  EXPECT_THAT(error_of(kTwoOfThree, "s", three_without(3)), HasSubstr("2 is not 3 for s"));
  // Of a sequence whose tensors are known too.
  const std::string known =
      node("SequenceConstruct", "a b c", "three") + node("SequenceAt", "three at", "pick");
  EXPECT_THAT(error_of(known, "pick", three_without(0, 3)), HasSubstr("2 is not 3 for pick"));
}

TEST(LateSequence, NothingIsErasedFromAnEmptyOne) {
  const std::string nodes = node("SequenceConstruct", "a", "one") +
                            node("SequenceErase", "one gone", "none") +
                            node("SequenceErase", "none", "fewer");
  EXPECT_THAT(error_of(nodes, "fewer", three_without(0)),
              HasSubstr("node fewer (SequenceErase): its sequence is empty"));
  const std::string by_data =
      kMore +
      node("If", "more", "s",
           branches(node("SequenceEmpty", "", "p"), "p", node("SequenceConstruct", "b c", "q"), "q")) +
      node("SequenceErase", "s", "fewer");
  EXPECT_EQ(run(by_data, "fewer", three_and(0)), packed({kThree[1].second}));
  EXPECT_THAT(error_of(by_data, "fewer", three_and(1)), HasSubstr("for fewer"));
}

TEST(LateSequence, GivesATensorOfADeclaredRankWhereRanksDiffer) {
  const std::string nodes = node("SequenceConstruct", "a square", "s") + node("SequenceAt", "s at", "pick") +
                            node("Neg", "pick", "y");
  Inputs inputs = three_without(0, 1);
  inputs.emplace_back("square", Given{{2, 2}, {1, 2, 3, 4}});
  EXPECT_THAT(error_of(nodes, "y", inputs), HasSubstr("unlike ranks"));
  const std::string declared =
      "value_info { name: 'pick' type { tensor_type { elem_type: 1 shape { dim { dim_param: 'H' } dim "
      "{ dim_param: 'W' } } } } } ";
  EXPECT_THAT(run(nodes + declared, "y", inputs), ElementsAre(ElementsAre(-1, -2, -3, -4)));
  inputs[4].second = whole(0);
  EXPECT_THAT(error_of(nodes + declared, "y", inputs), HasSubstr("1 is not 2 for pick"));
}

TEST(LateSequence, IsConcatenatedAndStacked) {
  // Matrices of 2 x 1, 2 x 3 and 2 x 2, without the one at `gone`.
  const Inputs matrices = {
      {"a", {{2, 1}, {1, 2}}}, {"b", {{2, 3}, {3, 4, 5, 6, 7, 8}}}, {"c", {{2, 2}, {9, 10, 11, 12}}}};
  const std::string along = node("ConcatFromSequence", "s", "y", integer("axis", -1));
  const auto run_without = [&](const std::string& nodes, double gone, const Inputs& tensors) {
    Inputs inputs = tensors;
    inputs.emplace_back("gone", whole(gone));
    return run(kTwoOfThree + nodes + node("Shape", "y", "shape"), "y shape", inputs);
  };
  EXPECT_THAT(run_without(along, 0, matrices),
              ElementsAre(ElementsAre(3, 4, 5, 9, 10, 6, 7, 8, 11, 12), ElementsAre(2, 5)));
  EXPECT_THAT(run_without(along, 2, matrices),
              ElementsAre(ElementsAre(1, 3, 4, 5, 2, 6, 7, 8), ElementsAre(2, 4)));
  EXPECT_THAT(run_without(node("ConcatFromSequence", "s", "y", integer("axis", 0)), 2, kThree),
              ElementsAre(ElementsAre(1, 2, 3), ElementsAre(3)));
  const Inputs alike = {{"a", floats({1, 2})}, {"b", floats({3, 4})}, {"c", floats({5, 6})}};
  const auto stacked = [&](int axis) {
    return run_without(node("ConcatFromSequence", "s", "y", integer("axis", axis) + integer("new_axis", 1)),
                       1, alike);
  };
  EXPECT_THAT(stacked(0), ElementsAre(ElementsAre(1, 2, 5, 6), ElementsAre(2, 2)));
  EXPECT_THAT(stacked(1), ElementsAre(ElementsAre(1, 5, 2, 6), ElementsAre(2, 2)));
}

TEST(LateSequence, OfUnlikeShapesIsNotConcatenated) {
  Inputs inputs = {
      {"a", {{2, 1}, {1, 2}}}, {"b", {{3, 1}, {3, 4, 5}}}, {"c", {{2, 1}, {6, 7}}}, {"gone", whole(0)}};
  const std::string nodes = kTwoOfThree + node("ConcatFromSequence", "s", "y", integer("axis", 1));
  EXPECT_THAT(error_of(nodes, "y", inputs), HasSubstr("for y"));
  inputs[3].second = whole(1);
  EXPECT_THAT(run(nodes, "y", inputs), ElementsAre(ElementsAre(1, 6, 2, 7)));
}

TEST(LateSequence, IsOfThePartsThatDataSay) {
  const Inputs inputs = {{"x", {{2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}}, {"size", whole(2)}};
  const std::string nodes = node("SplitToSequence", "x size", "s", integer("axis", 1)) +
                            node("SequenceAt", "s n1", "second") + node("SequenceAt", "s nm1", "last") +
                            node("SequenceLength", "s", "length") +
                            node("ConcatFromSequence", "s", "again", integer("axis", 1));
  EXPECT_THAT(
      run(nodes, "second last length again", inputs),
      ElementsAre(ElementsAre(3, 4, 8, 9), ElementsAre(5, 10), ElementsAre(3), inputs[0].second.values));
  EXPECT_THAT(error_of(nodes, "length", {inputs[0], {"size", whole(0)}}), HasSubstr("for s"));
}

TEST(LateSequence, IsOfAsManyPartsAsDataSay) {
  // The sizes are the positions of what is not 0.
  const std::string nodes = node("NonZero", "is_size", "positions") +
                            node("Squeeze", "positions v0", "sizes") +
                            node("SplitToSequence", "x sizes", "s") + node("SequenceAt", "s n0", "first") +
                            node("SequenceLength", "s", "length");
  const Given x = floats({1, 2, 3, 4, 5, 6});
  EXPECT_THAT(run(nodes, "first length", {{"x", x}, {"is_size", floats({0, 1, 1, 1})}}),
              ElementsAre(ElementsAre(1), ElementsAre(3)));
  EXPECT_THAT(run(nodes, "first length", {{"x", x}, {"is_size", floats({0, 0, 1, 0, 1})}}),
              ElementsAre(ElementsAre(1, 2), ElementsAre(2)));
  EXPECT_THAT(error_of(nodes, "first", {{"x", x}, {"is_size", floats({0, 1, 1})}}), HasSubstr("for s"));
}

TEST(LateSequence, OfSinglePartsHasTensorsOfKnownShapes) {
  // As PyTorch's exporter writes repeat_interleave(x, times, 0): how long the list `shape` is must be known.
  const std::string ones = attribute("value", "type: TENSOR t { dims: 1 data_type: 7 int64_data: 1 } ");
  const std::string body = node("SequenceAt", "numbers i", "number") + node("SequenceAt", "rows i", "row") +
                           node("Unsqueeze", "row v1", "wide") +
                           node("Concat", "v1 number v2", "shape", integer("axis", 0)) +
                           node("Expand", "wide shape", "many") + node("Reshape", "many columns", "part") +
                           node("SequenceInsert", "s part", "t") + node("Identity", "c", "again");
  const std::string nodes =
      node("NonZero", "is_kept", "positions") + node("Squeeze", "positions v0", "at") +
      node("Gather", "x at", "kept") + node("Gather", "times at", "kept_times") +
      node("Shape", "kept_times", "count") + node("Squeeze", "count v0", "m") +
      node("ConstantOfShape", "count", "ones", ones) + node("SplitToSequence", "kept_times ones", "numbers") +
      node("SplitToSequence", "kept ones", "rows") + node("Concat", "vm1 v2", "columns", integer("axis", 0)) +
      node("SequenceEmpty", "", "empty") +
      node("Loop", "m - empty", "all", graph("body", "i c s", body, "again t")) +
      node("ConcatFromSequence", "all", "y", integer("axis", 0));
  const Inputs inputs = {{"x", {{5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}},
                         {"times", {{5}, {2, 9, 3, 1, 2}, DType::kI64}},
                         {"is_kept", floats({1, 0, 1, 1, 0})}};
  EXPECT_THAT(run(nodes, "y", inputs), ElementsAre(ElementsAre(1, 2, 1, 2, 5, 6, 5, 6, 5, 6, 7, 8)));
}

TEST(LateSequence, IsMappedTensorByTensor) {
  const std::string body = graph("body", "e f",
                                 node("Mul", "e f", "g") + node("Shape", "e", "size") +
                                     node("Concat", "size size", "sizes", integer("axis", 0)),
                                 "g sizes");
  const std::string nodes = kTwoOfThree + node("SequenceMap", "s factor", "y sizes", body);
  Inputs inputs = three_without(1);
  inputs.emplace_back("factor", floats({10}));
  std::vector<Numbers> expected = packed({floats({10, 20}), floats({40, 50, 60})});
  for (const Numbers& part : packed({floats({2, 2}), floats({3, 3})})) expected.push_back(part);
  EXPECT_EQ(run(nodes, "y sizes", inputs), expected);
}

TEST(LateSequence, WithoutTensorsIsMappedToNone) {
  const std::string nodes = node("SequenceConstruct", "a", "one") +
                            node("SequenceErase", "one gone", "none") +
                            node("SequenceMap", "none", "y", graph("body", "e", node("Neg", "e", "f"), "f")) +
                            node("SequenceLength", "y", "length");
  EXPECT_THAT(run(nodes, "length", three_without(0)), ElementsAre(ElementsAre(0)));
}

TEST(LateSequence, IsTwoOutputsOfTheModel) {
  const Graph graph = import_onnx_bytes(
      parse(kNumbers + kTwoOfThree, three_without(0), "s", kNewest).SerializeAsString(), ".");
  EXPECT_THAT(graph.main.output_names, ElementsAre("s[]", "s[].dims"));
  EXPECT_EQ(graph.main.outputs[0]->type.rank(), 1);
  EXPECT_EQ(graph.main.outputs[1]->type.shape[1], Dim(2));
}

}  // namespace
}  // namespace gantry
