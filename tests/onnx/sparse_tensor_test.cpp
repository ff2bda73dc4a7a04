// Sparse tensors, which are dense once a model is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kOpset = "opset_import { version: 13 }";

/// A tensor of f32 with two elements, 5 and 6, at these positions; `shape` of `indices` too.
std::string sparse(const std::string& dims, const std::string& shape, const std::string& indices) {
  return "values { name: 'w' data_type: 1 dims: 2 float_data: [5, 6] } indices { data_type: 7 " + shape +
         " int64_data: [" + indices + "] } " + dims;
}
std::string constant(const std::string& tensor) {
  return node("Constant", "", "c",
              attribute("sparse_value", "type: SPARSE_TENSOR sparse_tensor { " + tensor + "}")) +
         node("Relu", "c", "y");
}
std::vector<double> elements_of(const std::string& graph) {
  return results(parse(graph, {}, "y", kOpset), {}).at(0);
}
std::string refusal(const std::string& tensor) {
  try {
    elements_of(constant(tensor));
  } catch (const Error& error) {
    return error.what();
  }
  return "it was taken";
}

TEST(SparseTensors, HaveOnePositionOrACoordinateOfEachDimension) {
  const auto expected = ElementsAre(0, 5, 0, 0, 0, 6);
  EXPECT_THAT(elements_of(constant(sparse("dims: 2 dims: 3", "dims: 2", "1, 5"))), expected);
  EXPECT_THAT(elements_of(constant(sparse("dims: 2 dims: 3", "dims: 2 dims: 2", "0, 1, 1, 2"))), expected);
}

TEST(SparseTensors, AreInitialisers) {
  EXPECT_THAT(elements_of("sparse_initializer { " + sparse("dims: 4", "dims: 2", "0, 2") + "} " +
                          node("Relu", "w", "y")),
              ElementsAre(5, 0, 6, 0));
}

TEST(SparseTensors, ThatAreDamagedAreRefused) {
  EXPECT_THAT(refusal(sparse("dims: 2 dims: 3", "dims: 2", "1, 6")),
              HasSubstr("stores an element at 6 of 6"));
  EXPECT_THAT(refusal(sparse("dims: 2 dims: 3", "dims: 2 dims: 2", "0, 3, 1, 2")), HasSubstr("at 3 of 3"));
  EXPECT_THAT(refusal(sparse("dims: 2 dims: 3", "dims: 2", "-1, 2")), HasSubstr("at -1 of 6"));
  EXPECT_THAT(refusal(sparse("dims: 2 dims: 3", "dims: 2", "2, 2")), HasSubstr("do not ascend"));
  EXPECT_THAT(refusal(sparse("dims: 2 dims: 3", "dims: 1", "2")), HasSubstr("for 1 positions"));
  EXPECT_THAT(refusal(sparse("dims: 6", "dims: 2 dims: 2", "0, 1, 0, 2")),
              HasSubstr("of 1 dimensions has positions of 2"));
  EXPECT_THAT(refusal(sparse("dims: 2 dims: -3", "dims: 2", "1, 2")), HasSubstr("negative dimension"));
  EXPECT_THAT(refusal(sparse("dims: 4611686018427387904 dims: 4 dims: 0", "dims: 2", "1, 2")),
              HasSubstr("has none"));
  EXPECT_THAT(refusal(sparse("dims: 4611686018427387904 dims: 4", "dims: 2", "1, 2")),
              HasSubstr("more than 2 GiB"));
}

}  // namespace
}  // namespace gantry
