#include "host/onnx/contents.h"

#include <algorithm>
#include <span>

#include "host/onnx/contents_rules.h"
#include "host/onnx/node_import.h"

namespace gantry {
namespace {

template <typename T>
Shape to_dims(const ConstantData& c) {
  const T* values = c.as<T>();
  Shape dims;
  for (size_t i = 0; i < c.size / sizeof(T); ++i) dims.push_back(static_cast<int64_t>(values[i]));
  return dims;
}

template <typename T>
ConstantPtr from_dims(const Contents& contents, const std::vector<int64_t>& values) {
  std::unique_ptr<T[]> data(new T[std::max<size_t>(values.size(), 1)]);
  for (size_t i = 0; i < values.size(); ++i) data[i] = static_cast<T>(values[i]);
  return make_constant(contents.type(), data.get());
}

}  // namespace

bool is_index_dtype(DType dtype) {
  return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kBool;
}

Contents Contents::vector(Shape dims, DType dtype) {
  const auto count = static_cast<int64_t>(dims.size());
  return {std::move(dims), {count}, dtype};
}

Contents Contents::scalar(Dim dim, DType dtype) {
  return {{std::move(dim)}, {}, dtype};
}

std::optional<Contents> contents_of(const ConstantData& c) {
  size_t count = c.size / static_cast<size_t>(byte_width(c.type.dtype));
  if (!is_index_dtype(c.type.dtype) || c.type.rank() > 1 || count > kLongestContents) return std::nullopt;
  Shape dims = c.type.dtype == DType::kI64   ? to_dims<int64_t>(c)
               : c.type.dtype == DType::kI32 ? to_dims<int32_t>(c)
                                             : to_dims<bool>(c);
  if (c.type.rank() == 1) return Contents::vector(std::move(dims), c.type.dtype);
  return Contents{std::move(dims), {}, c.type.dtype};
}

ConstantPtr constant_of(const Contents& contents) {
  auto values = constant_shape(contents.dims);
  if (!values) return nullptr;
  if (contents.dtype == DType::kI64) return from_dims<int64_t>(contents, *values);
  if (contents.dtype == DType::kI32) return from_dims<int32_t>(contents, *values);
  return from_dims<bool>(contents, *values);
}

bool evaluate_contents(NodeImport& node) {
  for (const std::span<const ContentsRule> rules : {movement_contents_rules(), arithmetic_contents_rules()}) {
    const auto rule = std::ranges::find(rules, node.op_type(), &ContentsRule::op);
    if (rule == rules.end()) continue;
    ContentsResult result = rule->evaluate(node);
    if (!result || result->dims.size() > kLongestContents) return false;
    node.set_contents(0, std::move(*result));
    return true;
  }
  return false;
}

}  // namespace gantry
