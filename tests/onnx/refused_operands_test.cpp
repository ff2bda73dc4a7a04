// Operands that nodes cannot have, and what is said of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using ::testing::HasSubstr;

/// What is said to be wrong with nodes whose last result is y.
std::string error_of(const std::string& nodes, const model_text::Inputs& inputs) {
  try {
    import_onnx_bytes(model_text::parse(nodes, inputs, "y", model_text::kNewest).SerializeAsString(), ".");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(OneNumber, IsNeitherNoneNorSeveral) {
  const std::string constants =
      "initializer { name: 'train' data_type: 9 int32_data: 1 } "
      "initializer { name: 'no_ratio' dims: 0 data_type: 1 } "
      "initializer { name: 'no_truth' dims: 0 data_type: 9 } "
      "initializer { name: 'none' dims: 0 data_type: 7 } "
      "initializer { name: 'two' dims: 2 data_type: 7 int64_data: [1, 1] } "
      "initializer { name: 'row' dims: [1, 2] data_type: 7 int64_data: [1, 1] } "
      "initializer { name: 'empty_row' dims: [0, 1] data_type: 7 } ";
  struct Wrong {
    const char *op, *inputs, *said;
  };
  const Wrong wrong[] = {
      {"Dropout", "x no_ratio train", "its ratio (input 1) should be one number, not 0"},
      {"Dropout", "x - no_truth", "its training_mode (input 2) should be one number, not 0"},
      {"DFT", "x - none", "its axis (input 2) should be one number, not 0"},
      {"DFT", "x - two", "its axis (input 2) should be one number, not 2"},
      {"DFT", "x two", "its dft_length (input 1) should be one number, not 2"},
      {"SplitToSequence", "x row", "its size of the parts (input 1) should be one number, not 2"},
      {"SplitToSequence", "x empty_row", "its size of the parts (input 1) should be one number, not 0"},
      {"CumSum", "x none", "its axis (input 1) should be one number, not 0"},
      {"TopK", "x two", "its k (input 1) should be one number, not 2"},
  };
  for (const auto& [op, inputs, said] : wrong) {
    const std::string error =
        error_of(constants + model_text::node(op, inputs, "y"), {{"x", model_text::random({1, 4, 1}, 1)}});
    EXPECT_THAT(error, HasSubstr(said)) << op << " of " << inputs;
    EXPECT_THAT(error, HasSubstr(op));
  }
}

TEST(Ranks, ThatNodesCannotHaveAreRefused) {
  using namespace model_text;  // NOLINT
  const std::string constants =
      "initializer { name: 'step' data_type: 7 int64_data: 2 } "
      "initializer { name: 'lengths' dims: 1 data_type: 6 int32_data: 2 } "
      "initializer { name: 'total' data_type: 6 int32_data: 3 } "
      "initializer { name: 'table' dims: [2, 4] data_type: 2 int32_data: [1, 2, 3, 4, 5, 6, 7, 8] } "
      "initializer { name: 'points' dims: 2 data_type: 2 int32_data: [1, 2] } ";
  const std::string heads = "domain: 'com.microsoft' " + integer("num_heads", 1) + integer("kv_num_heads", 1);
  const std::string blocks = "domain: 'com.microsoft' " + integer("bits", 4) + integer("block_size", 16);
  const Inputs inputs{{"scalar", random({}, 1)},       {"vector", random({2}, 2)},
                      {"matrix", random({2, 1}, 3)},   {"x", random({1, 4, 1}, 4)},
                      {"boxes", random({1, 3, 4}, 5)}, {"at", {{}, {1}, DType::kI64}}};
  struct Wrong {
    std::string op, inputs, attributes;
    const char* said;
  };
  const Wrong wrong[] = {
      {"NonMaxSuppression", "boxes scalar", "", "should have 3 dimensions"},
      {"NonMaxSuppression", "scalar boxes", "", "should have 3 dimensions"},
      {"STFT", "x step scalar", "", "should be a vector"},
      {"DeformConv", "vector vector vector", "", "does not fit the data"},
      {"DeformConv", "x x vector", "", "do not fit the weight"},
      {"GroupQueryAttention", "x x x matrix matrix lengths total", heads, "its past_key"},
      {"GatherBlockQuantized", "table at matrix points", blocks, "should be packed along an axis"},
  };
  for (const auto& [op, names, attributes, said] : wrong) {
    const std::string error = error_of(constants + node(op, names, "y", attributes), inputs);
    EXPECT_THAT(error, HasSubstr(said)) << op << " of " << names;
    EXPECT_THAT(error, HasSubstr(op));
  }
}

}  // namespace
}  // namespace gantry
