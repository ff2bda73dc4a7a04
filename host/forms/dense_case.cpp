#include "host/forms/dense_case.h"

namespace gantry::forms {

DenseCase dense_case(const FormQuestion& question) {
  return {question.node.attrs_as<DenseAttrs>(), question.node.inputs[0]->type, question.weight->type.dtype};
}

namespace {

bool has_plain_weight(const FormQuestion& question) {
  const DenseAttrs* attrs = question.node.match(nn::dense);
  return attrs != nullptr && attrs->as_in_model() && question.weight->is_constant();
}

}  // namespace

bool is_dense(const FormQuestion& question, const FormContext&) {
  return has_plain_weight(question) && dense_case(question).data.dtype == dense_case(question).weight;
}

bool is_dense_of_integers(const FormQuestion& question) {
  return has_plain_weight(question) && dense_case(question).of_integers();
}

}  // namespace gantry::forms
