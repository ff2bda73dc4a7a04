#include "tests/random_graphs/wide_node.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/op.h"
#include "host/ops/pool.h"
#include "host/support/error.h"
#include "host/tensor/element.h"
#include "tests/random_graphs/sketch.h"
#include "tests/support/interpreted.h"

namespace gantry::random_graphs {
namespace {

ConstantPtr converted(const ConstantPtr& data, DType to) {
  if (!data || !is_float(data->type.dtype) || data->type.dtype == to) return data;
  std::byte* bytes = nullptr;
  auto result = allocate_constant({to, data->type.shape}, &bytes);
  const auto from_width = static_cast<size_t>(byte_width(data->type.dtype)),
             to_width = static_cast<size_t>(byte_width(to));
  for (size_t i = 0; i < data->size / from_width; ++i)
    write_float(to, bytes + i * to_width, read_float(data->type.dtype, data->bytes + i * from_width));
  return result;
}

/// Float dtypes among attributes become f64.
class DTypeWidener : public PartialAttrVisitor {
 public:
  using PartialAttrVisitor::operator();
  void operator()(std::string_view, DType& value) override {
    if (is_float(value)) value = DType::kF64;
  }
};

/// The op on these inputs, by itself.
std::vector<ConstantPtr> run_alone(const Node& node, std::shared_ptr<const Attrs> attrs,
                                   const std::vector<ConstantPtr>& inputs) {
  Function function;
  std::vector<Value*> values;
  for (const ConstantPtr& input : inputs)
    values.push_back(input ? function.add_parameter("x", input->type) : nullptr);
  return testing::interpret_node(*add_op(function, node.op->name, std::move(attrs), values), inputs);
}

bool is_wide_anyway(const Node& node) {
  const auto wide = [](const Value* v) {
    return v == nullptr || !is_float(v->type.dtype) || v->type.dtype == DType::kF64;
  };
  return std::ranges::all_of(node.inputs, wide) && std::ranges::all_of(node.results, wide);
}

std::vector<ConstantPtr> run_as_is(const Node& node, std::vector<ConstantPtr> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) inputs[i] = converted(inputs[i], node.inputs[i]->type.dtype);
  }
  std::vector<ConstantPtr> results = testing::interpret_node(node, inputs);
  for (ConstantPtr& result : results) result = widened(result);
  return results;
}

int64_t elements(const Value* value) {
  return element_count(value->type.shape).value();
}

}  // namespace

ConstantPtr widened(const ConstantPtr& data) {
  return converted(data, DType::kF64);
}

std::vector<ConstantPtr> run_wide(const Node& node, const std::vector<ConstantPtr>& inputs) {
  if (is_wide_anyway(node)) return testing::interpret_node(node, inputs);
  // The loops of these are for f32 alone.
  static const std::set<std::string_view> kF32Only{"nn.lstm_recurrence", "nn.gru_recurrence",
                                                   "nn.rnn_recurrence"};
  if (kF32Only.contains(node.op->name)) return run_as_is(node, inputs);
  auto attrs = node.attrs->clone();
  DTypeWidener widener;
  attrs->fields(widener);
  return run_alone(node, attrs, inputs);
}

bool computes(const Node& node) {
  static const std::set<std::string_view> kExact{
      "less",    "less_equal", "greater",     "greater_equal", "equal",  "not_equal", "maximum",
      "minimum", "nn.relu",    "clip",        "negative",      "abs",    "sign",      "copy",
      "where",   "floor",      "ceil",        "round",         "trunc",  "isnan",     "isinf",
      "max",     "min",        "nn.max_pool", "argmax",        "argmin", "topk",      "nn.hardmax"};
  const bool from_float_to_others = node.op->name == "cast" && !is_float(node.result()->type.dtype);
  const bool moves = op_def(node).is_view || op_def(node).fusion == FusionClass::kInjective || from_float_to_others ||
                     kExact.contains(node.op->name);
  const bool floats =
      std::ranges::any_of(node.inputs, [](const Value* v) { return v && is_float(v->type.dtype); }) ||
      std::ranges::any_of(node.results, [](const Value* v) { return is_float(v->type.dtype); });
  return floats && !moves;
}

std::optional<int64_t> terms_of_product(const Node& node) {
  const std::string_view op = node.op->name;
  if (op == "nn.conv") return elements(node.inputs[1]) / node.attrs_as<ConvAttrs>().channels;
  if (op == "nn.conv_transpose") return elements(node.inputs[1]);
  if (op == "nn.dense") return node.inputs[0]->type.shape.back().value();
  if (op == "matmul") {
    const Shape& a = node.inputs[0]->type.shape;
    const bool turned = node.attrs_as<MatmulAttrs>().transpose_a && a.size() >= 2;
    return a[a.size() - (turned ? 2 : 1)].value();
  }
  return std::nullopt;
}

std::optional<int64_t> terms_of_sum(const Node& node) {
  const std::string_view op = node.op->name;
  if (op == "sum" || op == "mean")
    return elements(node.inputs[0]) / std::max<int64_t>(1, elements(node.result()));
  if (op == "cumsum") return elements(node.inputs[0]);
  if (op != "nn.avg_pool") return std::nullopt;
  int64_t terms = 1;
  for (int64_t extent : node.attrs_as<PoolAttrs>().kernel) terms *= extent;
  return terms;
}

bool rounds_beside_one(const Node& node) {
  static const std::set<std::string_view> kActivations{"nn.elu",  "nn.selu", "nn.celu",
                                                       "nn.gelu", "nn.mish", "nn.softplus"};
  return kActivations.contains(node.op->name);
}

double other_growth(const Node& node) {
  const bool sums = op_def(node).fusion == FusionClass::kOutElementwiseFusable ||
                    op_def(node).fusion == FusionClass::kReduction || op_def(node).fusion == FusionClass::kOpaque;
  return sums && !node.inputs.empty() ? std::sqrt(static_cast<double>(elements(node.inputs[0]))) : 0;
}

}  // namespace gantry::random_graphs
