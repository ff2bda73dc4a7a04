#include "host/ops/custom.h"

#include <algorithm>
#include <set>

#include "host/ops/support.h"

namespace gantry {
namespace {

constexpr int kMostInputs = 64;

std::vector<DType> dtypes_of(const std::string& text) {
  std::vector<DType> dtypes;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(", ", begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    const auto dtype = parse_dtype(name);
    ops::require(dtype.has_value(), "'{}' is no element type", name);
    dtypes.push_back(*dtype);
    begin = end + 2;
  }
  return dtypes;
}

std::vector<TensorType> infer_custom(const Node& node, Function&) {
  const auto& attrs = node.attrs_as<CustomAttrs>();
  const std::vector<DType> dtypes = dtypes_of(attrs.types);
  ops::require(!dtypes.empty() && dtypes.size() == attrs.ranks.size(),
               "{} types and {} ranks make no results", dtypes.size(), attrs.ranks.size());
  std::vector<TensorType> types;
  size_t next = 0;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const int64_t rank = attrs.ranks[i];
    ops::require(rank >= 0 && rank <= static_cast<int64_t>(attrs.dims.size() - next),
                 "{} dimensions are too few for its results", attrs.dims.size());
    const auto from = attrs.dims.begin() + static_cast<std::ptrdiff_t>(next);
    types.push_back({dtypes[i], Shape(from, from + rank)});
    next += static_cast<size_t>(rank);
  }
  ops::require(next == attrs.dims.size(), "{} dimensions are too many for its results", attrs.dims.size());
  return types;
}

}  // namespace

bool calls_gpu_kernel(const Node& node) {
  const CustomAttrs* attrs = node.match(op::custom);
  if (attrs == nullptr || attrs->code == nullptr || !attrs->code->gpu || attrs->blocks.empty()) return false;
  std::set<const Value*> values;
  return std::ranges::all_of(node.inputs, [&](const Value* input) {
    return input != nullptr && !is_immediate(*input) && values.insert(input).second;
  });
}

std::string short_digest(const CustomKernel& kernel) {
  constexpr size_t kDigits = 16;
  return kernel.digest.substr(0, kDigits);
}

std::shared_ptr<CustomAttrs> custom_attrs(std::shared_ptr<const CustomKernel> code,
                                          const std::vector<TensorType>& results,
                                          const std::vector<CustomAttribute>& attributes,
                                          const Dim& scratch) {
  auto attrs = std::make_shared<CustomAttrs>();
  attrs->op = code->op;
  attrs->attributes = to_string(attributes);
  attrs->kernel = short_digest(*code);
  for (const TensorType& type : results) {
    attrs->types += (attrs->types.empty() ? "" : ", ") + std::string(name_of(type.dtype));
    attrs->ranks.push_back(type.rank());
    attrs->dims.insert(attrs->dims.end(), type.shape.begin(), type.shape.end());
  }
  attrs->scratch = scratch;
  attrs->code = std::move(code);
  return attrs;
}

void add_custom_op(OpSet& set) {
  OpDef op = ops::define(op::custom, FusionClass::kOpaque, LayoutBehaviour::kNone, {});
  op.min_inputs = 0;
  op.max_inputs = kMostInputs;
  op.keeps_types = true;
  op.infer = infer_custom;
  op.flops = [](const Node&) { return Dim(0); };  // nobody knows
  op.algorithm = [](const Node& node) { return node.attrs_as<CustomAttrs>().op; };
  set.add(std::move(op));
}

}  // namespace gantry
