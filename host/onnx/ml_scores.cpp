#include "host/onnx/ml_scores.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "host/onnx/data_axes.h"
#include "host/onnx/texts.h"
#include "host/ops/elementwise.h"
#include "host/ops/reduce.h"

namespace gantry {
namespace {

/// Softmax of the scores that are not 0; those that are stay as they are.
Term softmax_of_others(const Term& scores) {
  constexpr double kZero = 1e-7;
  const Term is_set = less(scores.number_like(kZero), abs(scores));
  const Term weights = where(is_set, exp(scores - largest(scores, {1}, KeepAxes::kYes)), 0);
  const Term total = sum(weights, {1}, KeepAxes::kYes);
  return where(equal(total, total.number_like(0)), 0.5, weights / total);
}

/// The standard normal distribution's quantile, with Winitzki's approximation of the inverse of erf.
Term probit(const Term& scores) {
  constexpr double kA = 0.147;
  const Term x = scores * 2 - 1;
  const Term log_part = log((1 - x) * (x + 1));
  const Term v = log_part * 0.5 + 2 / (std::numbers::pi * kA);
  const Term size = sqrt(sqrt(square(v) - log_part / kA) - v) * std::numbers::sqrt2;
  return where(less(x, x.number_like(0)), -size, size);
}

}  // namespace

Term as_float(const Term& x) {
  return x.dtype() == DType::kF64 ? x : x.cast(DType::kF32);
}

Term rows_of_features(NodeImport& n) {
  const Term x = as_float(Term::input(n, 0));
  return x.rank() == 1 ? x.unsqueezed(0) : x;
}

Term numbers_like(const Term& x, const std::vector<double>& values) {
  NodeImport& n = x.node();
  const TensorType type{DType::kF64, {static_cast<int64_t>(values.size())}};
  return Term(n, n.constant_value(make_constant(type, values.data()), "numbers")).cast(x.dtype());
}

Term post_transformed(const Term& scores, const std::string& transform) {
  if (transform == "NONE") return scores;
  if (transform == "SOFTMAX") return softmax(scores, 1);
  if (transform == "LOGISTIC") return sigmoid(scores);
  if (transform == "SOFTMAX_ZERO") return softmax_of_others(scores);
  if (transform == "PROBIT") return probit(scores);
  scores.node().fail("its post_transform is unknown: '{}'", transform);
}

Term labels_at(const Term& positions, const char* attribute) {
  NodeImport& n = positions.node();
  const std::vector<int64_t> labels = n.integer_list(attribute);
  const std::vector<std::string> texts = n.text_list("classlabels_strings");
  if (!texts.empty()) return gather(Term(n, text_constant(n, texts)), positions, 0);
  if (labels.empty()) n.fail("has neither {} nor classlabels_strings", attribute);
  return gather(Term(n, index_constant(n, labels)), positions, 0);
}

int64_t label_count(NodeImport& n, const char* attribute) {
  return static_cast<int64_t>(
      std::max(n.integer_list(attribute).size(), n.text_list("classlabels_strings").size()));
}

Term best_classes(const Term& scores) {
  auto attrs = std::make_shared<ArgReduceAttrs>();
  attrs->axis = 1;
  attrs->keepdims = false;
  return {scores.node(), scores.node().add(op::argmax, {scores}, attrs)};
}

Term chosen_labels(const Term& scores, const char* attribute) {
  NodeImport& n = scores.node();
  if (label_count(n, attribute) != 1 || !(scores.dim(1) == Dim(1)))
    return labels_at(best_classes(scores), attribute);
  // What rows become that are not of another label, the standard does not say.
  const bool is_1 = n.integer_list(attribute) == std::vector<int64_t>{1};
  if (!is_1 || !n.text_list("classlabels_strings").empty())
    n.unsupported(UnsupportedKind::kAttribute, "a single class label other than 1");
  return less(scores.number_like(0), scores).cast(DType::kI64).squeezed(1);
}

}  // namespace gantry
