// Inputs that have an initialiser of their name, which is their default.
#include <gmock/gmock.h>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;
using ::testing::ElementsAre;
using ::testing::SizeIs;

const std::string kAdd = node("Add", "x w", "y");
const std::string kDefault = "initializer { name: 'w' dims: 3 data_type: 1 float_data: [10, 20, 30] } ";

Graph imported(const std::string& graph, std::set<std::string> kept, int ir_version = 8) {
  const std::string text = fmt::format("ir_version: {} {} graph {{ name: 'g' {} {} }}", ir_version, kNewest,
                                       open_input("x", "3") + graph, output_list("y"));
  onnx::ModelProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  ImportOptions options;
  options.kept_inputs = std::move(kept);
  return import_onnx_bytes(proto.SerializeAsString(), ".", options);
}

std::vector<float> run(const Graph& graph, const std::vector<Given>& inputs) {
  std::vector<ConstantPtr> data;
  for (const Given& input : inputs) data.push_back(input.constant());
  const ConstantPtr result = testing::interpret_function(graph.main, data).at(0);
  return {result->as<float>(), result->as<float>() + element_count(result->type.shape).value()};
}

TEST(DefaultInput, IsAConstantUnlessItIsKept) {
  for (const int ir_version : {3, 8}) {
    const Graph constant = imported(open_input("w", "3") + kDefault + kAdd, {}, ir_version);
    EXPECT_THAT(constant.main.parameters, SizeIs(1));
    EXPECT_THAT(run(constant, {{{3}, {1, 2, 3}}}), ElementsAre(11, 22, 33));

    const Graph kept = imported(open_input("w", "3") + kDefault + kAdd, {"w"}, ir_version);
    ASSERT_THAT(kept.main.parameters, SizeIs(2));
    EXPECT_EQ(kept.main.parameters[1]->name, "w");
    EXPECT_THAT(run(kept, {{{3}, {1, 2, 3}}, {{3}, {4, 5, 6}}}), ElementsAre(5, 7, 9));
  }
}

TEST(DefaultInput, OfIntegersMayDecideOnAShape) {
  const std::string graph =
      "input { name: 'w' type { tensor_type { elem_type: 7 shape { dim { dim_value: 2 } } } } } "
      "initializer { name: 'w' dims: 2 data_type: 7 int64_data: [3, 1] } " +
      node("Reshape", "x w", "y");
  EXPECT_EQ(imported(graph, {}).main.outputs[0]->type.shape, (Shape{3, 1}));
  const Graph kept = imported(graph, {"w"});
  EXPECT_THAT(kept.main.parameters, SizeIs(2));
  EXPECT_EQ(kept.main.outputs[0]->type.rank(), 2);
  EXPECT_THAT(run(kept, {{{3}, {1, 2, 3}}, {{2}, {1, 3}, DType::kI64}}), ElementsAre(1, 2, 3));
}

TEST(DefaultInput, MayBeSparse) {
  const std::string graph =
      "sparse_initializer { values { name: 'w' dims: 1 data_type: 1 float_data: 7 } indices { dims: 1 "
      "data_type: 7 "
      "int64_data: 1 } dims: 3 } " +
      open_input("w", "3") + kAdd;
  EXPECT_THAT(run(imported(graph, {}), {{{3}, {1, 2, 3}}}), ElementsAre(1, 9, 3));
  EXPECT_THAT(run(imported(graph, {"w"}), {{{3}, {1, 2, 3}}, {{3}, {4, 5, 6}}}), ElementsAre(5, 7, 9));
}

TEST(DefaultInput, OtherNamesChangeNothing) {
  const Graph graph = imported(kDefault + kAdd, {"w", "x", "nothing"});  // the model does not list w
  EXPECT_THAT(graph.main.parameters, SizeIs(1));
  EXPECT_THAT(run(graph, {{{3}, {1, 2, 3}}}), ElementsAre(11, 22, 33));
}

}  // namespace
}  // namespace gantry
