// Slices against a walk over the elements, for constant bounds and for bounds made of dimensions.
#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>

#include "host/onnx/import.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

/// Positions that a slice of an axis takes, from ONNX's definition: negative bounds have the extent added and
/// are clamped, starts to elements that there are.
std::vector<int64_t> positions(int64_t extent, int64_t start, int64_t end, int64_t step) {
  std::vector<int64_t> taken;
  if (extent == 0) return taken;
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, extent);
    for (int64_t i = start; i < std::min(end, extent); i += step) taken.push_back(i);
  } else {
    start = std::clamp<int64_t>(start, 0, extent - 1);
    for (int64_t i = start; i > std::max<int64_t>(end, -1); i += step) taken.push_back(i);
  }
  return taken;
}

std::string integers(const std::string& name, int64_t value) {
  return fmt::format("initializer {{ name: '{}' dims: 1 data_type: 7 int64_data: {} }} ", name, value);
}
std::string node(const std::string& op, const std::vector<std::string>& inputs, const std::string& result) {
  std::string text = fmt::format("node {{ op_type: '{}' ", op);
  for (const std::string& name : inputs) text += fmt::format("input: '{}' ", name);
  return text + fmt::format("output: '{}' }} ", result);
}
Graph import(const std::string& graph) {
  onnx::ModelProto proto;
  const std::string text =
      "ir_version: 8 opset_import { version: 16 } graph { name: 'g' " + graph + "output { name: 'y' } }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return import_onnx_bytes(proto.SerializeAsString(), ".");
}

/// Every slice of an axis with a grid of bounds; elements are their positions.
template <typename T>
void expect_slices_as_defined(int64_t extent, const std::string& element_type, const std::string& field) {
  constexpr int64_t kFar = int64_t{1} << 62;
  constexpr int64_t kBounds[] = {-kFar, -20, -8, -7, -3, -1, 0, 1, 5, 7, 20, kFar};
  std::string data = fmt::format("initializer {{ name: 'x' dims: {} data_type: {} ", extent, element_type);
  for (int64_t i = 0; i < extent; ++i) data += fmt::format("{}: {} ", field, i);
  data += "} " + integers("axis", 0) + node("Slice", {"x", "start", "end", "axis", "step"}, "y");
  for (int64_t start : kBounds) {
    for (int64_t end : kBounds) {
      for (int64_t step : {int64_t{1}, int64_t{3}, kFar, int64_t{-1}, int64_t{-2}, -kFar}) {
        SCOPED_TRACE(
            fmt::format("{} of type {}: from {} to {} by {}", extent, element_type, start, end, step));
        const Graph graph =
            import(data + integers("start", start) + integers("end", end) + integers("step", step));
        const Value& y = *graph.main.nodes().at(0)->inputs.at(0);  // read by a copy
        ASSERT_TRUE(y.is_constant());
        const T* elements = y.constant->as<T>();
        EXPECT_EQ(std::vector<int64_t>(elements, elements + element_count(y.type.shape).value()),
                  positions(extent, start, end, step));
      }
    }
  }
}

TEST(Slice, TakesWhatOnnxDefinesForBoundsInsideAndOutside) {
  for (int64_t extent : {0, 1, 2, 7}) expect_slices_as_defined<float>(extent, "1", "float_data");
}

TEST(Slice, OfAShapeTakesTheSame) {
  for (int64_t extent : {0, 1, 2, 7}) expect_slices_as_defined<int64_t>(extent, "7", "int64_data");
}

TEST(Slice, OfAnAxisOfMoreThanTwoToThe31stTakesBoundsBeyondThat) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMostOfI32 = std::numeric_limits<int32_t>::max();
  const std::string long_axis =
      "input { name: 'x' type { tensor_type { elem_type: 2 shape { dim { dim_value: 3000000000 } } } } } ";
  const auto extent = [&](int64_t start, int64_t end) {
    const Graph graph = import(long_axis + integers("start", start) + integers("end", end) +
                               node("Slice", {"x", "start", "end"}, "y"));
    return graph.main.outputs[0]->type.shape[0];
  };
  EXPECT_EQ(extent(0, 2200000000), Dim(int64_t{2200000000}));
  EXPECT_EQ(extent(-2200000000, kMost), Dim(int64_t{2200000000}));
  EXPECT_EQ(extent(kMostOfI32, kMost), Dim(3000000000 - kMostOfI32));
}

const std::string kAnyLength =
    "input { name: 'x' type { tensor_type { elem_type: 7 shape { dim { dim_param: 'L' } } } } } " +
    node("Shape", {"x"}, "length");

TEST(Slice, BoundsMadeOfDimensionsCountFromTheEndWhereTheyAreNegative) {
  for (int64_t step : {1, 2, -1, -2}) {
    for (int64_t less : {0, 1, 2, 3, 10}) {
      for (int64_t other : {-3, 0, 4, 1000}) {
        for (bool is_start : {true, false}) {
          const Graph graph = import(
              kAnyLength + integers("less", less) + integers("other", other) + integers("axis", 0) +
              integers("step", step) + node("Sub", {"length", "less"}, "moving") +
              node("Slice",
                   {"x", is_start ? "moving" : "other", is_start ? "other" : "moving", "axis", "step"}, "y"));
          const Value& y = *graph.main.outputs[0];
          for (int64_t length = 0; length < 25; ++length) {
            const std::vector<int64_t> expected =
                positions(length, is_start ? length - less : other, is_start ? other : length - less, step);
            const std::map<std::string, int64_t> symbols{{"L", length}};
            const auto count = static_cast<size_t>(y.type.shape[0].evaluate(symbols));
            ASSERT_EQ(count, expected.size()) << y.type.str() << " " << length << " " << step << " " << less
                                              << " " << other << " " << is_start << expected.size();
            if (count == 0 || y.producer == nullptr) continue;
            const auto& slice = y.producer->attrs_as<StridedSliceAttrs>();
            EXPECT_EQ(slice.begin[0].evaluate(symbols), expected[0]) << slice.begin[0].str() << " " << length;
            EXPECT_EQ(slice.strides[0], step);
          }
        }
      }
    }
  }
}

TEST(Slice, ExtentsStaySimpleWhereNoBoundCanBeNegative) {
  // x[:-1], x[::-1] and x[:length]
  const Dim length = Dim::symbol("L");
  auto extent = [](int64_t start, const std::string& end, int64_t step) {
    const Graph graph =
        import(kAnyLength + integers("start", start) + integers("minus_one", -1) +
               integers("far", int64_t{-1} << 40) + integers("axis", 0) + integers("step", step) +
               node("Slice", {"x", "start", end, "axis", "step"}, "y"));
    return graph.main.outputs[0]->type.shape[0];
  };
  EXPECT_EQ(extent(0, "minus_one", 1), max(0, length - 1));
  EXPECT_EQ(extent(-1, "far", -1), length);
  EXPECT_EQ(extent(0, "length", 1), length);
}

TEST(Split, AsManyPartsAsItsAttributeSays) {
  const auto import_split = [](int parts) {
    onnx::ModelProto proto;
    const std::string text = fmt::format(
        "ir_version: 8 opset_import {{ version: 18 }} graph {{ name: 'g' input {{ name: 'x' type {{ tensor_type {{ "
        "elem_type: 1 shape {{ dim {{ dim_value: 7 }} }} }} }} }} node {{ op_type: 'Split' input: 'x' output: 'y' "
        "output: 'z' attribute {{ name: 'num_outputs' type: INT i: {} }} }} output {{ name: 'y' }} output {{ name: "
        "'z' }} }}",
        parts);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
    return import_onnx_bytes(proto.SerializeAsString(), ".");
  };
  EXPECT_EQ(import_split(2).main.outputs.at(1)->type.shape, Shape{3});
  EXPECT_THROW(import_split(7), Error);
}

}  // namespace
}  // namespace gantry
