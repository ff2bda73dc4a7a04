// Networks with symbolic dimensions: compiled once, run at several sizes, and compared at each with the same
// network compiled for that size alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "host/zoo/zoo.h"
#include "tests/end_to_end/networks.h"
#include "tests/support/compiled_model.h"

namespace gantry::end_to_end {
namespace {

using ::testing::HasSubstr;

/// Names the parameters' dimensions that are symbolic; each input's shape has to be given when it runs.
void expect_agreement(const std::string& bytes, const std::vector<std::vector<int64_t>>& shapes) {
  const Graph symbolic = import_onnx_bytes(bytes, "");
  const Value& input = *symbolic.main.parameters.at(0);
  ASSERT_FALSE(constant_shape(input.type.shape)) << "nothing is symbolic";
  testing::LocalModel model(testing::compile_to_bytes(symbolic));
  for (const auto& shape : shapes) {
    ImportOptions options;
    options.shapes[input.name] = shape;
    const Graph fixed = import_onnx_bytes(bytes, "", options);
    const auto inputs = random_inputs(fixed);
    const auto expected = run_here("native", 0, 1)(fixed, inputs);
    EXPECT_LE(worst_error(model.run(inputs), expected), kTolerance) << ::testing::PrintToString(shape);
  }
}

TEST(Dynamic, BatchOfImages) {
  for (const char* name : {"resnet18", "mobilenet_v3", "squeezenet1_1"}) {
    SCOPED_TRACE(name);
    expect_agreement(build_zoo_model(name, {.size = 64, .dynamic = true}), {{3, 3, 64, 64}, {1, 3, 64, 64}});
  }
}

TEST(Dynamic, BatchAndLengthOfText) {
  expect_agreement(build_zoo_model("bert_tiny", {.dynamic = true}),
                   {{1, 1}, {2, 7}, {3, 64}, {1, 200}, {1, 512}});
}

TEST(Dynamic, BatchAndLengthOfRecurrences) {
  const std::string bytes = build_zoo_model("lstm", {.dynamic = true});
  const Graph graph = import_onnx_bytes(bytes, "");
  std::vector<std::vector<int64_t>> shapes;
  for (int64_t steps : {1, 2, 9}) {
    std::vector<int64_t> shape;
    for (const Dim& dim : graph.main.parameters[0]->type.shape) {
      shape.push_back(dim.is_constant() ? dim.value() : dim.str() == "batch" ? 3 : steps);
    }
    shapes.push_back(shape);
  }
  expect_agreement(bytes, shapes);
}

TEST(Dynamic, LengthBeyondThePositionsIsRefusedByName) {
  const Graph graph = import_onnx_bytes(build_zoo_model("bert_tiny", {.dynamic = true}), "");
  testing::LocalModel model(testing::compile_to_bytes(graph));
  try {
    model.run({testing::random_tensor(DType::kI64, {1, 513}, 1)});
    FAIL() << "a sequence of 513 was accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("51"));
  }
  EXPECT_EQ(model.run({testing::random_tensor(DType::kI64, {1, 5}, 1)}).size(), 1u) << "the session goes on";
}

TEST(Dynamic, EmulatedBoardAgrees) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  const Runner board = run_on_emulated_board();
  for (const char* name : {"bert_tiny", "squeezenet1_1"}) {
    SCOPED_TRACE(name);
    const bool text = std::string(name) == "bert_tiny";
    const std::string bytes = build_zoo_model(name, {.size = text ? 0 : 64, .dynamic = true});
    const Graph symbolic = import_onnx_bytes(bytes, "");
    ImportOptions options;
    options.shapes[symbolic.main.parameters[0]->name] =
        text ? std::vector<int64_t>{2, 13} : std::vector<int64_t>{2, 3, 64, 64};
    const Graph fixed = import_onnx_bytes(bytes, "", options);
    const auto inputs = random_inputs(fixed);
    EXPECT_LE(worst_error(board(symbolic, inputs), run_here()(fixed, inputs)), kTolerance);
  }
}

}  // namespace
}  // namespace gantry::end_to_end
