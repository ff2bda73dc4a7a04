// Values that the importer computes itself: small constants, and dimensions as data.
#include "host/graph/symbolic_attrs.h"
#include "host/onnx/importer.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/builder.h"
#include "host/support/error.h"
#include "host/tensor/interpret.h"

namespace gantry {
namespace {

constexpr int64_t kSmall = 4096;  // elements; larger constants are left to the passes

bool is_small(const TensorType& type) {
  // A symbol beside a 0 leaves the count known.
  return constant_shape(type.shape) && element_count(type.shape).value() <= kSmall;
}

}  // namespace

std::vector<ConstantPtr> Importer::try_evaluate(const OpHandle& op,
                                                const std::shared_ptr<const Attrs>& attrs,
                                                const std::vector<Value*>& inputs) {
  for (const Value* input : inputs) {
    if (input && (!input->is_constant() || !is_small(input->type))) return {};
  }
  Node draft;
  draft.op = &op_set().get(op);
  draft.attrs = attrs ? attrs : op.make_attrs();
  if (mentions_symbols(*draft.attrs)) return {};
  draft.inputs = inputs;
  std::vector<TensorType> types;
  try {
    Function scratch;  // constants alone add no constraints that matter
    types = op_set().infer(draft, scratch);
  } catch (const Error&) {
    return {};  // adding the node says what is wrong
  }
  if (op_def(draft).is_view && inputs.size() == 1) {  // the same bytes
    auto viewed = std::make_shared<ConstantData>(*inputs[0]->constant);
    viewed->type = types[0];
    return {viewed};
  }
  if (!op_def(draft).compute) return {};
  std::vector<Value> results(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (!is_small(types[i])) return {};
    results[i].type = types[i];
    draft.results.push_back(&results[i]);
  }
  std::vector<Tensor> tensors;
  std::map<const OperationNode*, ConstantPtr> data;
  for (const Value* input : inputs) {
    tensors.push_back(input ? placeholder(to_exprs(input->type.shape), input->type.dtype, input->name)
                            : Tensor());
    if (input) data[tensors.back().op().get()] = input->constant;
  }
  return interpret(op_def(draft).compute(draft, tensors), data, 1);
}

Value* Importer::dims_as_data(const Contents& contents, const std::string& name) {
  auto dims = std::make_shared<DimsToTensorAttrs>();
  dims->dims = contents.dims;
  const Builder build(function(), {name});
  Value* value = build(op::dims_to_tensor, {}, dims);
  if (contents.dtype != DType::kI64) {
    auto to = std::make_shared<CastAttrs>();
    to->to = contents.dtype;
    value = build(op::cast, {value}, to);
  }
  if (contents.shape.size() == 1) return value;
  auto as = std::make_shared<ReshapeAttrs>();
  as->shape = contents.type().shape;
  return build(op::reshape, {value}, as);
}

}  // namespace gantry
