#include "host/forms/dense_case.h"

namespace gantry::forms {

DenseCase dense_case(const FormQuestion& question) {
  return {question.node.attrs_as<DenseAttrs>(), question.node.inputs[0]->type};
}

bool is_dense(const FormQuestion& question, const FormContext&) {
  const DenseAttrs* attrs = question.node.match(nn::dense);
  return attrs != nullptr && attrs->weight_block == 0 && !attrs->gemm && attrs->tile_parts == 0 &&
         question.weight->is_constant();
}

}  // namespace gantry::forms
