#include <fmt/format.h>

#include "host/ops/conv.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::ElementsAre;

/// The forms that the pipeline makes of what models write in several ways, in its order.
void canonicalize(Graph& graph) {
  for (const char* name :
       {"expand_conv_transpose", "trim_windows", "split_max_windows", "make_whole_convolutions_dense",
        "merge_covered_axes", "drop_unit_windows", "recognize_layer_norm", "recognize_gelu", "dead_code",
        "move_elementwise_before_views", "merge_split_norm", "simplify_movement"})
    find_pass(name)->run(graph, fresh_context());
}

/// The function in those forms, folded, with its constants.
std::string canonical(const std::string& text) {
  return after(text, [](Graph& graph) {
    canonicalize(graph);
    fold_constant(graph, fresh_context());
    dead_code(graph, fresh_context());
  });
}

/// Kernels that the whole pipeline of cleaning and fusing makes, as "op+op+…".
std::vector<std::string> kernels_of(const std::string& text) {
  Graph graph = parse_graph(text, table());
  fold_constant(graph, fresh_context());
  canonicalize(graph);
  fold_constant(graph, fresh_context());
  dead_code(graph, fresh_context());
  fuse_ops(graph, fresh_context());
  verify(graph, table(), "fuse_ops");
  std::vector<std::string> kernels;
  for (const Node* node : graph.main.nodes()) {
    if (op_def(*node).is_view) continue;
    std::string name = node->bodies.empty() ? node->op->name : "";
    for (size_t i = 0; name.empty() || (!node->bodies.empty() && i < node->bodies[0]->nodes().size()); ++i)
      name += (i == 0 ? "" : "+") + node->bodies[0]->nodes()[i]->op->name;
    kernels.push_back(name);
  }
  return kernels;
}

const std::string kImage =
    "fn @main(%x: Tensor[(N, 8, H, W), f32]) -> Tensor[(N, 8, H, W), f32] {\n"
    "  %0 = mean(%x, axes=[2, 3], keepdims=true)\n";

std::string small_conv(const std::string& input, const std::string& weight, int channels, int inputs) {
  return "nn.conv(" + input + ", @" + weight + ": Tensor[(" + std::to_string(channels) + ", " +
         std::to_string(inputs) + ", 1, 1), f32], channels=" + std::to_string(channels) +
         ", kernel=[1, 1], strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0))";
}

/// Squeeze-and-excitation by products, after the view that `flatten` is.
std::string by_products(const std::string& activation, bool biased) {
  std::string text =
      kImage + "  %1 = reshape(%0, shape=(N, 8))\n  %2 = nn.dense(%1, @a: Tensor[(8, 2), f32], units=2)\n";
  text += biased ? "  %3 = add(%2, @b: Tensor[(2), f32])\n" : "  %3 = identity(%2)\n";
  text += "  %4 = nn.relu(%3)\n  %5 = nn.dense(%4, @c: Tensor[(2, 8), f32], units=8)\n";
  text += biased ? "  %6 = add(%5, @d: Tensor[(8), f32])\n" : "  %6 = identity(%5)\n";
  return text + "  %7 = " + activation + "(%6)\n  %8 = reshape(%7, shape=(N, 8, 1, 1))\n" +
         "  %9 = multiply(%x, %8)\n  return %9\n}";
}
/// The same with the activation behind the view.
std::string with_late_activation(const std::string& activation) {
  return kImage +
         "  %1 = reshape(%0, shape=(N, 8))\n  %2 = nn.dense(%1, @a: Tensor[(8, 2), f32], units=2)\n" +
         "  %4 = nn.relu(%2)\n  %5 = nn.dense(%4, @c: Tensor[(2, 8), f32], units=8)\n" +
         "  %6 = reshape(%5, shape=(N, 8, 1, 1))\n  %b = add(%6, @d: Tensor[(8, 1, 1), f32])\n  %7 = " +
         activation + "(%b)\n  %9 = multiply(%x, %7)\n  return %9\n}";
}
std::string by_convolutions(const std::string& activation, bool biased) {
  std::string text = kImage + "  %2 = " + small_conv("%0", "a", 2, 8) + "\n";
  text += biased ? "  %3 = add(%2, @b: Tensor[(2, 1, 1), f32])\n" : "  %3 = identity(%2)\n";
  text += "  %4 = nn.relu(%3)\n  %5 = " + small_conv("%4", "c", 8, 2) + "\n";
  text += biased ? "  %6 = add(%5, @d: Tensor[(8, 1, 1), f32])\n" : "  %6 = identity(%5)\n";
  return text + "  %7 = " + activation + "(%6)\n  %9 = multiply(%x, %7)\n  return %9\n}";
}

TEST(TrimWindows, LeavesOutTapsThatMeetOnlyPadding) {
  // Padded by as much as the window reaches: the result is as large as the image.
  const auto conv = [](int kernel, int dilation, int padding) {
    return fmt::format("fn @main(%x: Tensor[(N, 8, 14, 14), f32]) -> Tensor[(N, 4, 14, 14), f32] {{\n"
                       "  %0 = nn.conv(%x, @w: Tensor[(4, 8, {0}, {0}), f32], channels=4, kernel=[{0}, {0}], "
                       "dilations=[{1}, {1}], padding=({2}, {2}, {2}, {2}))\n  return %0\n}}",
                       kernel, dilation, padding);
  };
  EXPECT_THAT(canonical(conv(3, 24, 24)), IsGraph(conv(1, 1, 0)));
  EXPECT_THAT(canonical(conv(3, 14, 14)), IsGraph(conv(1, 1, 0)));
  EXPECT_THAT(canonical(conv(3, 13, 13)), IsGraph(conv(3, 13, 13)));
  EXPECT_THAT(canonical(conv(3, 1, 1)), IsGraph(conv(3, 1, 1)));
}

std::string tall_conv(const std::string& in, const std::string& out, const std::string& kernel) {
  return fmt::format(
      "{1} = nn.conv({0}, @w{2}: Tensor[(8, 8, {3}), f32], channels=8, kernel=[{3}], strides=[2, 1], "
      "dilations=[1, 1], padding=(2, 0, 2, 0))\n",
      in, out, out.substr(1), kernel);
}

TEST(DropUnitWindows, ImagesOneElementWideHaveOneAxis) {
  const std::string head = "fn @main(%x: Tensor[(N, 8, 64, 1), f32]) -> Tensor[(N, 8, 16, 1), f32] {\n  ";
  const auto flat_conv = [](const std::string& in, const std::string& out) {
    return out + " = nn.conv(" + in + ", @w" + out.substr(1) +
           ": Tensor[(8, 8, 5), f32], channels=8, kernel=[5], strides=[2], padding=(2, 2))\n";
  };
  EXPECT_THAT(canonical(head + tall_conv("%x", "%0", "5, 1") + "  %1 = nn.relu(%0)\n  " +
                        tall_conv("%1", "%2", "5, 1") + "  return %2\n}"),
              IsGraph(head + "%r = reshape(%x, shape=(N, 8, 64))\n  " + flat_conv("%r", "%0") +
                      "  %1 = nn.relu(%0)\n  " + flat_conv("%1", "%2") +
                      "  %3 = reshape(%2, shape=(N, 8, 16, 1))\n  return %3\n}"));
  // Of the views between the two convolutions none is left: the activation has moved before them.
  EXPECT_THAT(kernels_of("fn @main(%x: Tensor[(N, 8, 64, 1), f32]) -> Tensor[(N, 8, 32, 1), f32] {\n  " +
                         tall_conv("%x", "%0", "5, 1") + "  %1 = nn.relu(%0)\n  return %1\n}"),
              ElementsAre("nn.conv+nn.relu"));
}

TEST(DropUnitWindows, WindowsBeyondTheirElementAndWiderImagesStay) {
  for (const std::string width : {"2", "W"}) {
    const std::string text = "fn @main(%x: Tensor[(N, 8, 64, " + width + "), f32]) -> Tensor[(N, 8, 32, " + width +
                             "), f32] {\n  " + tall_conv("%x", "%0", "5, 1") + "  return %0\n}";
    EXPECT_THAT(canonical(text), IsGraph(text));
  }
  const auto pool = [](const char* kernel, const char* padding, int width) {
    return fmt::format(
        "fn @main(%x: Tensor[(N, 8, 64, 1), f32]) -> Tensor[(N, 8, 62, {2}), f32] {{\n  %0 = nn.max_pool(%x, "
        "kernel=[{0}], strides=[1, 1], dilations=[1, 1], padding=({1}), ceil_mode=false)\n  return %0\n}}",
        kernel, padding, width);
  };
  EXPECT_THAT(canonical(pool("3, 1", "0, 0, 0, 0", 1)),
              IsGraph("fn @main(%x: Tensor[(N, 8, 64, 1), f32]) -> Tensor[(N, 8, 62, 1), f32] {\n"
                      "  %r = reshape(%x, shape=(N, 8, 64))\n  %0 = nn.max_pool(%r, kernel=[3])\n"
                      "  %1 = reshape(%0, shape=(N, 8, 62, 1))\n  return %1\n}"));
  for (const std::string& text : {pool("3, 1", "0, 0, 0, 1", 2), pool("3, 3", "0, 1, 0, 1", 1)})
    EXPECT_THAT(canonical(text), IsGraph(text));
}

TEST(CanonicalizeOps, SqueezeAndExcitationHasOneFormHoweverItIsWritten) {
  for (const std::string activation : {"sigmoid", "nn.hard_sigmoid", "tanh"}) {
    const std::vector<std::string> biased{"mean", "nn.dense+add+nn.relu", "nn.dense+add+" + activation,
                                          "multiply"};
    EXPECT_EQ(kernels_of(by_products(activation, true)), biased);
    EXPECT_EQ(kernels_of(by_convolutions(activation, true)), biased);
    EXPECT_THAT(kernels_of(with_late_activation(activation)),
                ElementsAre("mean", "nn.dense+nn.relu", "nn.dense+add+" + activation, "multiply"));
  }
}

TEST(CanonicalizeOps, AnActivationOfSeveralNodesMovesBeforeAViewAsAWhole) {
  EXPECT_THAT(kernels_of("fn @main(%x: Tensor[(N, 3, 1, 1), f32]) -> Tensor[(N, 2, 1, 1), f32] {\n  %0 = " +
                         small_conv("%x", "w", 2, 3) +
                         "\n  %1 = sigmoid(%0)\n  %2 = multiply(%0, %1)\n  return %2\n}"),
              ElementsAre("nn.dense+sigmoid+multiply"));
}

TEST(CanonicalizeOps, AConvolutionOfAnImageOfOneElementIsAMatrixProduct) {
  const std::string head = "fn @main(%x: Tensor[(N, 3, 1, 1), f32]) -> Tensor[(N, 2, 1, 1), f32] {\n";
  EXPECT_THAT(canonical(head + "  %0 = " + small_conv("%x", "w", 2, 3) + "\n  return %0\n}"),
              IsGraph(head + "  %0 = reshape(%x, shape=(N, 3))\n"
                             "  %1 = nn.dense(%0, const(f32, [3, 2], [0, 0, 0, 0, 0, 0]), units=2)\n"
                             "  %2 = reshape(%1, shape=(N, 2, 1, 1))\n  return %2\n}"));
  const std::string wide = "fn @main(%x: Tensor[(N, 3, 1, W), f32]) -> Tensor[(N, 2, 1, W), f32] {\n  %0 = " +
                           small_conv("%x", "w", 2, 3) + "\n  return %0\n}";
  EXPECT_THAT(canonical(wide), IsGraph(wide));
}

TEST(CanonicalizeOps, ProductsWithWeightsThatFoldingMadeConstantAreDense) {
  const std::string head = "fn @main(%x: Tensor[(N, 2, 3), f32]) -> Tensor[(N, 2, 2), f32] {\n";
  const auto made = [&](const std::string& text, bool small) {
    return after(text, [small](Graph& graph) {
      PassContext context;
      context.small = small;
      for (const char* name : {"fold_constant", "make_weight_products_dense", "fold_constant", "dead_code"})
        find_pass(name)->run(graph, context);
    });
  };
  const std::string dense =
      head + "  %1 = nn.dense(%x, const(f32, [3, 2], [1, 4, 2, 5, 3, 6]), units=2)\n  return %1\n}";
  const std::string bytes = "  %0 = cast(const(u8, [3, 2], [1, 4, 2, 5, 3, 6]), to=f32)\n";
  EXPECT_THAT(made(head + bytes + "  %1 = matmul(%x, %0)\n  return %1\n}", false), IsGraph(dense));
  const std::string turned = head +
                             "  %1 = matmul(%x, const(f32, [2, 3], [1, 2, 3, 4, 5, 6]), transpose_b=true)\n"
                             "  return %1\n}";
  EXPECT_THAT(made(turned, false), IsGraph(dense));
  EXPECT_THAT(made(turned, true), IsGraph(turned));
  // Data on both sides, matrices of a batch, and integers stay as they are.
  for (const std::string& other :
       {std::string(
            "fn @main(%x: Tensor[(N, 2, 3), f32], %y: Tensor[(3, 2), f32]) -> Tensor[(N, 2, 2), f32] {\n"
            "  %1 = matmul(%x, %y)\n  return %1\n}"),
        head + "  %1 = matmul(%x, @w: Tensor[(1, 3, 2), f32])\n  return %1\n}",
        std::string("fn @main(%x: Tensor[(N, 2, 3), i32]) -> Tensor[(N, 2, 2), i32] {\n"
                    "  %1 = matmul(%x, @w: Tensor[(3, 2), i32])\n  return %1\n}")})
    EXPECT_THAT(made(other, false), IsGraph(other));
}

TEST(CanonicalizeOps, AViewThatOthersReadStaysBeforeItsElementwiseUsers) {
  const std::string text = R"(fn @main(%x: Tensor[(4, 4), f32]) -> (Tensor[(16), f32], Tensor[(16), f32]) {
  %0 = exp(%x)
  %1 = reshape(%0, shape=(16))
  %2 = tanh(%1)
  return %1, %2
}
)";
  EXPECT_EQ(canonical(text), text);
}

const std::string kRows = "fn @main(%x: Tensor[(N, S, 8), f32]) -> Tensor[(N, S, 8), f32] {\n";
/// 1e-5 in f32.
const std::string kEpsilon = "axis=2, epsilon=9.9999997473787516e-06";
const std::string kPlainNorm = kRows + "  %0 = nn.layer_norm(%x, const(f32, [1], [1]), " +
                               kEpsilon + ")\n  return %0\n}";
const std::string kLayerNorm = kRows + R"(  %0 = mean(%x, axes=[2], keepdims=true)
  %1 = subtract(%x, %0)
  %2 = multiply(%1, %1)
  %3 = mean(%2, axes=[2], keepdims=true)
  %4 = add(%3, const(f32, [], [1e-05]))
  %5 = sqrt(%4)
  %6 = divide(%1, %5)
)";

TEST(CanonicalizeOps, MaximaOverLargeWindowsAreTakenAlongOneAxisAfterTheOther) {
  const auto pool = [](int kernel, int stride, int result) {
    return fmt::format(
        "fn @main(%x: Tensor[(1, 8, 20, 20), f32]) -> Tensor[(1, 8, {2}, {2}), f32] {{\n"
        "  %y = nn.max_pool(%x, kernel=[{0}, {0}], strides=[{1}, {1}], padding=({3}, {3}, {3}, {3}))\n"
        "  return %y\n}}\n",
        kernel, stride, result, kernel / 2);
  };
  EXPECT_THAT(canonical(pool(5, 1, 20)),
              IsGraph("fn @main(%x: Tensor[(1, 8, 20, 20), f32]) -> Tensor[(1, 8, 20, 20), f32] {\n"
                      "  %0 = nn.max_pool(%x, kernel=[1, 5], padding=(0, 2, 0, 2))\n"
                      "  %1 = nn.max_pool(%0, kernel=[5, 1], padding=(2, 0, 2, 0))\n  return %1\n}"));
  EXPECT_THAT(canonical(pool(3, 2, 10)), IsGraph(pool(3, 2, 10)));
}

// Remainders of unequal numbers of taps are convolutions of their own, where one would mostly multiply zeros.
TEST(CanonicalizeOps, ATransposedConvolutionMultipliesFewZeros) {
  auto convolutions = [](int64_t kernel, int64_t outputs) {
    const Graph graph = parse_graph(
        canonical(fmt::format(
            "fn @main(%x: Tensor[(1, 8, 16, 16), f32]) -> Tensor[(1, {0}, {2}, {2}), f32] {{\n"
            "  %y = nn.conv_transpose(%x, @w: Tensor[(8, {0}, {1}, {1}), f32], kernel=[{1}, {1}], "
            "strides=[2, 2], dilations=[1, 1], padding=(0, 0, 0, 0), output_padding=[0, 0], groups=1)\n"
            "  return %y\n}}\n",
            outputs, kernel, 30 + kernel)),
        table());
    EXPECT_EQ(count_of(graph, nn::conv_transpose), 0u);
    return count_of(graph, nn::conv);
  };
  EXPECT_EQ(convolutions(3, 32), 4u);
  EXPECT_EQ(convolutions(4, 32), 1u);
  EXPECT_EQ(convolutions(3, 3), 1u) << "a vector holds the channels of all remainders";
}

TEST(CanonicalizeOps, LayerNormalisationInStepsIsRecognised) {
  EXPECT_THAT(canonical(kLayerNorm +
                        "  %7 = multiply(@w: Tensor[(8), f32], %6)\n  %8 = add(%7, @b: Tensor[(8), f32])\n"
                        "  %9 = nn.relu(%8)\n  return %9\n}"),
              IsGraph(kRows + "  %0 = nn.layer_norm(%x, @w: Tensor[(8), f32], @b: Tensor[(8), f32], " + kEpsilon +
                      ")\n  %1 = nn.relu(%0)\n  return %1\n}"));
  EXPECT_THAT(canonical(kLayerNorm + "  return %6\n}"), IsGraph(kPlainNorm));
}

TEST(CanonicalizeOps, LayerNormalisationWithAReciprocalIsRecognised) {
  for (const char* product : {"multiply(%1, %7)", "multiply(%7, %1)"}) {
    std::string text = kLayerNorm + "  return %6\n}";
    text.replace(text.find("%6 = divide(%1, %5)"), 19, std::string("%7 = reciprocal(%5)\n  %6 = ") + product);
    EXPECT_THAT(canonical(text), IsGraph(kPlainNorm));
  }
}

TEST(CanonicalizeOps, LayerNormalisationWithAPowerForTheRootIsRecognised) {
  std::string text = kLayerNorm + "  return %6\n}";
  text.replace(text.find("sqrt(%4)"), 8, "power(%4, const(f32, [], [0.5]))");
  EXPECT_THAT(canonical(text), IsGraph(kPlainNorm));
}

TEST(CanonicalizeOps, AStepOfLayerNormalisationThatIsReadOutsideKeepsTheSteps) {
  std::string text = kLayerNorm + "  return %6, %1\n}";
  text.replace(text.find("-> Tensor[(N, S, 8), f32]"), 25,
               "-> (Tensor[(N, S, 8), f32], Tensor[(N, S, 8), f32])");
  EXPECT_THAT(canonical(text), IsGraph(text));
}

TEST(CanonicalizeOps, LayerNormalisationThatAddsAnAxisKeepsItsSteps) {
  std::string text = kLayerNorm + "  return %6\n}";
  text.replace(text.find("-> Tensor[(N, S, 8), f32]"), 25, "-> Tensor[(1, N, S, 8), f32]");
  text.replace(text.find("const(f32, [], [1e-05])"), 23, "const(f32, [1, 1, 1, 1], [1e-05])");
  EXPECT_THAT(canonical(text), IsGraph(text));
}

std::string split_norm(const std::string& cut) {
  return "fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 4, H, W), f32] {\n"
         "  %0 = strided_slice(%x, begin=(0, 0, 0, 0), end=(N, " +
         cut +
         ", H, W), strides=[1, 1, 1, 1])\n"
         "  %1 = nn.instance_norm(%0, @s: Tensor[(2), f32], @t: Tensor[(2), f32])\n"
         "  %2 = strided_slice(%x, begin=(0, 2, 0, 0), end=(N, 4, H, W), strides=[1, 1, 1, 1])\n"
         "  %3 = multiply(%2, const(f32, [2, 1, 1], [3, 4]))\n"
         "  %4 = add(%3, const(f32, [2, 1, 1], [5, 6]))\n"
         "  %5 = concatenate(%1, %4, axis=1)\n  return %5\n}";
}

TEST(CanonicalizeOps, ChannelsAreNotSplitToNormaliseSomeOfThem) {
  EXPECT_THAT(canonical(split_norm("2")),
              IsGraph("fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 4, H, W), f32] {\n"
                      "  %0 = multiply(%x, const(f32, [4, 1, 1], [1, 1, 3, 4]))\n"
                      "  %1 = add(%0, const(f32, [4, 1, 1], [0, 0, 5, 6]))\n"
                      "  %2 = nn.instance_norm(%1, @s: Tensor[(2), f32], @t: Tensor[(2), f32], normalized=2)\n"
                      "  return %2\n}"));
}

TEST(CanonicalizeOps, NormalisationsOfNoChannelsStay) {
  const std::string text =
      "fn @main(%x: Tensor[(N, 2, H, W), f32]) -> Tensor[(N, 2, H, W), f32] {\n"
      "  %0 = strided_slice(%x, begin=(0, 0, 0, 0), end=(N, 0, H, W), strides=[1, 1, 1, 1])\n"
      "  %1 = nn.instance_norm(%0, const(f32, [0], []), const(f32, [0], []))\n"
      "  %2 = strided_slice(%x, begin=(0, 0, 0, 0), end=(N, 2, H, W), strides=[1, 1, 1, 1])\n"
      "  %3 = multiply(%2, const(f32, [2, 1, 1], [3, 4]))\n"
      "  %4 = add(%3, const(f32, [2, 1, 1], [5, 6]))\n"
      "  %5 = concatenate(%1, %4, axis=1)\n  return %5\n}";
  EXPECT_THAT(after(text, [](Graph& graph) { find_pass("merge_split_norm")->run(graph, fresh_context()); }),
              IsGraph(text));
}

const std::string kGelu =
    "fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(N, 8), f32] {\n  %0 = nn.gelu(%x)\n  return %0\n}";

std::string gelu(const std::string& products) {
  return "fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(N, 8), f32] {\n"
         "  %0 = divide(%x, const(f32, [], [1.4142135]))\n  %1 = erf(%0)\n"
         "  %2 = add(%1, const(f32, [], [1]))\n" +
         products + "  return %4\n}";
}

TEST(CanonicalizeOps, GaussianErrorUnitsInStepsAreRecognisedInAnyOrder) {
  for (const char* products : {"  %3 = multiply(%x, %2)\n  %4 = multiply(%3, const(f32, [], [0.5]))\n",
                               "  %3 = multiply(%2, const(f32, [], [0.5]))\n  %4 = multiply(%3, %x)\n",
                               "  %3 = multiply(%x, const(f32, [], [0.5]))\n  %4 = multiply(%3, %2)\n"}) {
    EXPECT_THAT(canonical(gelu(products)), IsGraph(kGelu));
  }
  const std::string doubled = gelu("  %3 = multiply(%x, %2)\n  %4 = multiply(%3, const(f32, [], [2]))\n");
  EXPECT_THAT(canonical(doubled), IsGraph(doubled));
}

TEST(CanonicalizeOps, GaussianErrorUnitsAreRecognisedWhereHalfOfTheDataIsReadElsewhereToo) {
  const std::string head = "fn @main(%x: Tensor[(N, 8), f32]) -> (Tensor[(N, 8), f32], Tensor[(N, 8), f32]) {\n";
  const std::string text =
      head +
      "  %0 = divide(%x, const(f32, [], [1.4142135]))\n  %1 = erf(%0)\n"
      "  %2 = add(%1, const(f32, [], [1]))\n  %3 = multiply(%x, const(f32, [], [0.5]))\n"
      "  %4 = multiply(%3, %2)\n  %5 = exp(%3)\n  return %4, %5\n}";
  EXPECT_THAT(canonical(text),
              IsGraph(head + "  %0 = nn.gelu(%x)\n  %1 = multiply(%x, const(f32, [], [0.5]))\n  %2 = exp(%1)\n"
                             "  return %0, %2\n}"));
}

TEST(CanonicalizeOps, GaussianErrorUnitsWithHalvesInTheBracketAreRecognised) {
  auto text = [](const char* summand) {
    return fmt::format(
        "fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(N, 8), f32] {{\n"
        "  %0 = multiply(%x, const(f32, [], [0.70710677]))\n  %1 = erf(%0)\n"
        "  %2 = multiply(const(f32, [], [0.5]), %1)\n  %3 = add(%2, const(f32, [], [{}]))\n"
        "  %4 = multiply(%x, %3)\n  return %4\n}}",
        summand);
  };
  EXPECT_THAT(canonical(text("0.5")), IsGraph(kGelu));
  EXPECT_THAT(canonical(text("1")), IsGraph(text("1")));
}

}  // namespace
}  // namespace gantry
