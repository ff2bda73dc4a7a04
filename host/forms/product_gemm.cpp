// nn.dense and matmul as matrix products in tiles of a GPU (host/ops/dense.h,
// host/targets/cuda/rule_gemm.cpp).
#include "host/forms/dense_case.h"
#include "host/forms/gemm_knobs.h"
#include "host/forms/product.h"
#include "host/graph/shape_guess.h"

namespace gantry::forms {
namespace {

constexpr Knob kKnobs[] = {kGemmRows, kGemmColumns, kGemmDepth, kGemmSplit};

bool is_matmul(const FormQuestion& question, const FormContext&) {
  const MatmulAttrs* attrs = question.node.match(op::matmul);
  return attrs != nullptr && !attrs->form.gemm;
}

/// Terms of a sum: both ops have them along the last axis of the data, but where matmul transposes those.
int64_t depth_of(const Node& node) {
  const Shape& shape = node.inputs[0]->type.shape;
  const MatmulAttrs* matmul = node.match(op::matmul);
  const size_t axis = matmul != nullptr && matmul->transpose_a && shape.size() > 1 ? 2 : 1;
  return shape.empty() ? 1 : guess::extent(shape[shape.size() - axis], guess::Extent::kDepth);
}

std::vector<Bid> bids(const FormQuestion& question, const FormContext& context) {
  return {{.decision = {"gemm", {}},
           .error = error_of(gpu_product(context.target.precision), depth_of(question.node))}};
}

/// The node with the form by which its op is computed so.
template <typename AttrsType>
FormedNode apply(const FormCase& given, WeightPacker&) {
  auto attrs = std::make_shared<AttrsType>(given.question.node.attrs_as<AttrsType>());
  attrs->form.gemm = true;
  return {.attrs = attrs};
}

template <typename AttrsType>
constexpr Form form_of(bool (*possible)(const FormQuestion&, const FormContext&)) {
  return {.name = "gemm",
          .devices = Devices::kGpus,
          .knobs = kKnobs,
          .possible = possible,
          .asks_rule = Devices::kGpus,
          .bids = bids,
          .apply = apply<AttrsType>,
          .made = [](const Node& node, const Decision&) { return node.attrs_as<AttrsType>().form.gemm; }};
}

}  // namespace

extern const Form dense_gemm_form = form_of<DenseAttrs>(is_dense);
extern const Form matmul_gemm_form = form_of<MatmulAttrs>(is_matmul);

}  // namespace gantry::forms
