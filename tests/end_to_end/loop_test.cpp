// Loops that data count or end, compiled: states that grow, turns that are gathered, and none at all.
#include "host/ops/control.h"
#include "host/support/error.h"
#include "tests/end_to_end/control_models.h"

namespace gantry::end_to_end {
namespace {

const std::string kNoAxes = "attribute { name: 'keepdims' type: INT i: 0 } ";

/// %m: the largest element as an i64.
std::string largest_as_count(const std::string& input, const std::string& count) {
  return node("ReduceMax", input, count + "_max", kNoAxes) +
         node("Cast", count + "_max", count, "attribute { name: 'to' type: INT i: 7 } ");
}
std::string as_float(const std::string& input, const std::string& result) {
  return node("Cast", input, result, "attribute { name: 'to' type: INT i: 1 } ");
}
/// The inputs that are left out stand as "".
std::string loop(const std::string& count, const std::string& condition, const std::string& states,
                 const std::string& outputs, const std::string& body) {
  std::string text = fmt::format("node {{ op_type: 'Loop' name: 'loop_{}' input: '{}' input: '{}' ", outputs.substr(0, 1),
                                 count, condition);
  std::istringstream words(states);
  for (std::string word; words >> word;) text += fmt::format("input: '{}' ", word);
  words = std::istringstream(outputs);
  for (std::string word; words >> word;) text += fmt::format("output: '{}' ", word);
  return text + body + "} ";
}
int64_t turns_of(const Floats& x) {
  return std::max<int64_t>(static_cast<int64_t>(*std::ranges::max_element(x)), 0);
}

TEST(Loop, MakesAsManyTurnsAsDataSayAndGathersThem) {
  const std::string body =
      graph_attribute("body", as_float("i", "f") + node("Add", "s f", "next") + node("Mul", "next two", "twice") +
                                  node("Identity", "c", "again"),
                      "again next twice", "i c s");
  const std::string bytes = model(largest_as_count("x", "m") + loop("m", "", "x", "y all", body) +
                                      node("Neg", "all", "negative"),
                                  "y negative");
  expect_results(bytes, [](const Floats& x) {
    Floats state = x, all;
    for (int64_t i = 0; i < turns_of(x); ++i) {
      for (float& v : state) v += static_cast<float>(i);
      for (const float v : state) all.push_back(-2 * v);
    }
    return std::vector<Floats>{state, all};
  });
}

TEST(Loop, GoesOnAsLongAsTheDataSay) {
  // No bound but the condition; the sum doubles until it is over 10 or the numbers are negative.
  const std::string body =
      graph_attribute("body", node("Mul", "s two", "next") + sum_is_more("next", "zero", "more") +
                                  sum_is_more("next", "ten", "enough") + node("Not", "enough", "wanting") +
                                  node("And", "more wanting", "again") + as_float("i", "f"),
                      "again next f", "i c s");
  const std::string bytes = model(sum_is_more("x", "zero", "begin") + loop("", "begin", "x", "y numbers", body), "y numbers");
  expect_results(bytes, [](const Floats& x) {
    Floats state = x, numbers;
    bool goes_on = sum(x) > 0;
    for (float i = 0; goes_on; ++i) {
      state = each(state, [](float v) { return 2 * v; });
      numbers.push_back(i);
      goes_on = sum(state) > 0 && !(sum(state) > 10);
    }
    return std::vector<Floats>{state, numbers};
  });
}

TEST(Loop, HandsOnValuesThatGrow) {
  const std::string body = graph_attribute(
      "body", node("Concat", "s x", "next", axis(0)) + node("Shape", "next", "size") + as_float("size", "length"),
      "c next length", "i c s");
  const std::string bytes = model(largest_as_count("x", "m") + loop("m", "", "x", "y lengths", body) +
                                      node("ReduceSum", "y", "total", kNoAxes),
                                  "y lengths total");
  expect_results(bytes, [](const Floats& x) {
    Floats state = x, lengths;
    for (int64_t i = 0; i < turns_of(x); ++i) {
      state.insert(state.end(), x.begin(), x.end());
      lengths.push_back(static_cast<float>(state.size()));
    }
    return std::vector<Floats>{state, lengths, Floats{sum(state)}};
  });
}

TEST(Loop, HoldsBranchesAndOtherLoops) {
  const std::string inner = graph_attribute("body", as_float("j", "g") + node("Add", "t g", "u"), "d u", "j d t");
  const std::string body = graph_attribute(
      "body",
      loop("i", "", "s", "w", inner) + sum_is_more("w", "ten", "big") +
          node("If", "big", "next", branches(node("Sub", "w two", "less"), "less", node("Add", "w r", "more"), "more")),
      "c next", "i c s");
  const std::string bytes =
      model(node("Relu", "x", "r") + largest_as_count("x", "m") + loop("m", "", "x", "y", body), "y");
  expect_results(bytes, [](const Floats& x) {
    Floats s = x;
    for (int64_t i = 0; i < turns_of(x); ++i) {
      for (int64_t j = 0; j < i; ++j) {
        for (float& v : s) v += static_cast<float>(j);
      }
      const bool big = sum(s) > 10;
      for (size_t k = 0; k < s.size(); ++k) s[k] += big ? -2 : std::max(x[k], 0.0f);
    }
    return std::vector<Floats>{s};
  });
}

TEST(Loop, NumbersAndConditionsThatABodyDeclaresAsVectorsAreVectors) {
  const auto vector = [](const std::string& name, int type) {
    return fmt::format("input {{ name: '{}' type {{ tensor_type {{ elem_type: {} shape {{ {} }} }} }} }} ",
                       name, type, "dim { dim_value: 1 }");
  };
  const std::string arguments = vector("i", 7) + vector("c", 9);
  const std::string body =
      graph_attribute("body", arguments + as_float("i", "f") + as_float("c", "g"), "c s f g", "s");
  // Of a known number of turns that hand a sequence on: they are written out.
  const std::string known = graph_attribute(
      "body", arguments + as_float("i", "h") + node("SequenceInsert", "t h", "longer"), "c longer", "t");
  const auto shape = [](const std::string& of) {
    return node("Shape", of, of + "_sizes") + as_float(of + "_sizes", of + "_shape");
  };
  const std::string bytes =
      model("initializer { name: 'three' data_type: 7 int64_data: 3 } " + largest_as_count("x", "m") +
                loop("m", "", "x", "y numbers conditions", body) + shape("numbers") + shape("conditions") +
                node("SequenceEmpty", "", "none") + loop("three", "", "none", "all", known) +
                node("ConcatFromSequence", "all", "counted", axis(0)),
            "numbers numbers_shape conditions_shape counted");
  expect_results(bytes, [](const Floats& x) {
    Floats numbers(static_cast<size_t>(turns_of(x)));
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    const Floats sizes{static_cast<float>(numbers.size()), 1};
    return std::vector<Floats>{numbers, sizes, sizes, {0, 1, 2}};
  });
}

// Each is converted twice as often as the one around it: 2^28 times the innermost.
TEST(Loop, TooManyWhoseStatesGrowInsideOfEachOtherAreAnError) {
  constexpr int kDepth = 28;
  std::string nodes = node("Concat", "s0 x", "w0", axis(0));
  for (int i = 1; i <= kDepth; ++i) {
    const std::string body =
        graph_attribute("body", nodes, fmt::format("c{0} w{0}", i - 1), fmt::format("i{0} c{0} s{0}", i - 1));
    const bool is_outermost = i == kDepth;
    nodes = loop("m", "", is_outermost ? "x" : fmt::format("s{}", i),
                 is_outermost ? "y" : fmt::format("w{}", i), body);
  }
  try {
    import_onnx_bytes(model(largest_as_count("x", "m") + nodes, "y"), "");
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("too many loops and branches inside of each other"));
  }
}

TEST(Loop, DrawsOtherRandomNumbersInEveryTurnAndTheSameInEveryRun) {
  const std::string body = graph_attribute("body", node("RandomUniformLike", "x", "drawn"), "c drawn", "i c");
  testing::LocalModel program(testing::compile_to_bytes(
      import_onnx_bytes(model(largest_as_count("x", "m") + loop("m", "", "", "rows", body), "rows"), "")));
  const Floats rows = floats(program.run({tensor({3, 1})}).at(0));
  ASSERT_EQ(rows.size(), 6U);
  for (size_t turn = 1; turn < 3; ++turn) EXPECT_NE(rows[0], rows[2 * turn]);
  EXPECT_NE(rows[2], rows[4]);
  EXPECT_EQ(floats(program.run({tensor({3, 1})}).at(0)), rows);
}

TEST(Loop, ReadsBackFromItsText) {
  const std::string body = graph_attribute("body", node("Concat", "s x", "next", axis(0)), "c next next", "i c s");
  // What is gathered differs in shape: that shows only when it runs.
  const std::string bytes = model(largest_as_count("x", "m") + loop("m", "", "x", "y all", body), "y all");
  const Graph graph = import_onnx_bytes(bytes, "");
  ASSERT_TRUE(has_control_flow(graph.main));
  expect_reads_back(graph);
  testing::LocalModel program(testing::compile_to_bytes(graph));
  EXPECT_EQ(floats(program.run({tensor({1, -3})}).at(0)), (Floats{1, -3, 1, -3}));
  try {
    program.run({tensor({2, 1})});
    FAIL() << "results of unlike shapes were gathered";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("loop_y: what its turns give differs in shape: (6) after (4)"));
  }
}

TEST(Loop, InitialisersOfBodiesMayBeAmongTheirInputs) {
  // As files of IR version 3 have them: w = 0.5.
  const auto halved = [](const std::string& name, const std::string& given, const std::string& outputs,
                         const std::string& inputs) {
    const std::string w = "initializer { name: 'w' data_type: 1 float_data: 0.5 } ";
    return graph_attribute(name, w + node("Mul", given + " w", "half"), outputs, inputs);
  };
  const std::string yes = "initializer { name: 'yes' data_type: 9 int32_data: 1 } ";
  const std::string either =
      halved("then_branch", "x", "half", "w") + halved("else_branch", "r", "half", "w");
  const std::string bytes = model(
      yes + node("Relu", "x", "r") + largest_as_count("x", "m") +
          loop("m", "", "x", "y", halved("body", "s", "c half", "w i c s")) +
          node("Scan", "x", "z",
               halved("body", "e", "half", "e w") + "attribute { name: 'num_scan_inputs' type: INT i: 1 } ") +
          node("If", "yes", "known", either) + sum_is_more("x", "zero", "more") +
          node("If", "more", "late", either),
      "y z known late");
  expect_results(bytes, [](const Floats& x) {
    const auto half = [](float v) { return v / 2; };
    const Floats halves = each(x, half);
    Floats y = x;
    for (int64_t i = 0; i < turns_of(x); ++i) y = each(y, half);
    return std::vector<Floats>{y, halves, halves,
                               sum(x) > 0 ? halves : each(x, [](float v) { return std::max(v, 0.0f) / 2; })};
  });
}

TEST(Scan, GoesOverAsManyStepsAsTheDataHave) {
  // Of N steps, forwards and backwards: sums up to each element.
  const std::string body = graph_attribute("body", node("Add", "s e", "next") + node("Identity", "next", "out"),
                                           "next out", "s e");
  const auto scan = [&](const std::string& outputs, int64_t backward) {
    return node("Scan", "zero x", outputs,
                body + "attribute { name: 'num_scan_inputs' type: INT i: 1 } " +
                    fmt::format("attribute {{ name: 'scan_input_directions' type: INTS ints: {} }} ", backward) +
                    fmt::format("attribute {{ name: 'scan_output_directions' type: INTS ints: {} }} ", backward));
  };
  const std::string bytes = model(scan("total sums", 0) + scan("again rests", 1), "total sums rests");
  expect_results(bytes, [](const Floats& x) {
    Floats sums(x.size()), rests(x.size());
    std::partial_sum(x.begin(), x.end(), sums.begin());
    std::partial_sum(x.rbegin(), x.rend(), rests.rbegin());
    return std::vector<Floats>{Floats{sums.back()}, sums, rests};
  });
}

const std::string kAddedBody = graph_attribute("body", node("Add", "a b", "sum"), "sum", "a b") +
                               "attribute { name: 'num_scan_inputs' type: INT i: 2 } ";

TEST(Scan, InputsOfUnlikeNumbersOfStepsAreRefused) {
  const std::string four = "initializer { name: 'four' dims: 4 data_type: 1 float_data: [10, 20, 30, 40] } ";
  testing::LocalModel program(testing::compile_to_bytes(
      import_onnx_bytes(model(four + node("Scan", "x four", "y", kAddedBody), "y"), "")));
  EXPECT_EQ(floats(program.run({tensor({1, 2, 3, 4})}).at(0)), (Floats{11, 22, 33, 44}));
  try {
    program.run({tensor({1})});
    FAIL() << "4 steps were read of an input of one";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("is 1, must be 4 (needed by Scan_y"));
  }
  const std::string five = "initializer { name: 'five' dims: 5 data_type: 1 float_data: [1, 2, 3, 4, 5] } ";
  try {
    import_onnx_bytes(model(four + five + node("Scan", "four five", "y", kAddedBody), "y"), "");
    FAIL() << "it was taken";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("node Scan_y (Scan): its inputs have 4 and 5 steps"));
  }
}

TEST(Scan, InputsOfUnlikeNumbersOfSequencesAreRefused) {
  const std::string nodes =
      "initializer { name: 'pair' dims: 2 dims: 1 data_type: 1 float_data: [10, 20] } " +
      node("Unsqueeze", "x", "column", "attribute { name: 'axes' type: INTS ints: 1 } ") +
      "node { op_type: 'Scan' name: 'scan' input: '' input: 'column' input: 'pair' output: 'y' " +
      kAddedBody + "} ";
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(model(nodes, "y")));
  proto.mutable_opset_import(0)->set_version(8);
  testing::LocalModel program(testing::compile_to_bytes(import_onnx_bytes(proto.SerializeAsString(), "")));
  EXPECT_EQ(floats(program.run({tensor({1, 2})}).at(0)), (Floats{11, 22}));
  try {
    program.run({tensor({1})});
    FAIL() << "2 sequences were read of an input of one";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("is 1, must be 2 (needed by scan"));
  }
}

TEST(Scan, OfNoStepsHandsItsStatesThrough) {
  const std::string body = graph_attribute(
      "body",
      node("ReduceSum", "e", "total", kNoAxes) + node("Add", "s total", "next") + node("Neg", "e", "out"),
      "next out", "s e");
  const std::string bytes = model(
      "initializer { name: 'none' dims: 0 dims: 2 data_type: 1 } " +
          node("Scan", "x none", "y outs", body + "attribute { name: 'num_scan_inputs' type: INT i: 1 } "),
      "y outs");
  expect_results(bytes, [](const Floats& x) { return std::vector<Floats>{x, {}}; });
}

}  // namespace
}  // namespace gantry::end_to_end
