// Losses of classifiers.
#include "host/onnx/converters.h"
#include "host/onnx/term.h"

namespace gantry {
namespace {

/// What both losses have beside the logarithms of probabilities (N, C, d…): classes (N, d…), weights (C), a
/// class that does not count, and how losses become one.
struct Classes {
  Term target;
  std::optional<Term> weight;  ///< of every target, 0 where it does not count; none: all weigh 1
  std::optional<Term> counts;  ///< whether a target counts; none: all
};

Classes read_classes(NodeImport& n, DType dtype) {
  Classes classes{Term::input(n, 1).cast(DType::kI64), {}, {}};
  if (n.has_attribute("ignore_index")) {
    const int64_t ignored = n.integer("ignore_index", 0);
    const Term index(n, n.constant_value(make_constant({DType::kI64, {}}, &ignored), "ignored"));
    classes.counts = not_equal(classes.target, index);
  }
  if (n.has(2)) classes.weight = gather(Term::input(n, 2).cast(dtype), classes.target, 0);
  if (classes.weight && classes.counts) classes.weight = where(*classes.counts, *classes.weight, 0);
  if (!classes.weight && classes.counts) classes.weight = classes.counts->cast(dtype);
  return classes;
}

/// Of logarithms of probabilities; computed in f32 at least.
Term loss_of(NodeImport& n, const Term& given) {
  const Term logarithms = given.widened();
  if (logarithms.rank() < 2 || n.rank(1) != logarithms.rank() - 1)
    n.fail("classes {} do not fit the data {}", n.type(1).str(), n.type(0).str());
  const Classes classes = read_classes(n, logarithms.dtype());
  Term loss = -gather_elements(logarithms, classes.target.unsqueezed(1), 1).squeezed(1);
  if (classes.counts) loss = where(*classes.counts, loss, 0);
  if (classes.weight) loss = loss * *classes.weight;
  const std::string reduction = n.text("reduction", "mean");
  if (reduction == "sum") loss = sum(loss, {});
  if (reduction == "mean") loss = classes.weight ? sum(loss, {}) / sum(*classes.weight, {}) : mean(loss, {});
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    n.fail("its reduction is '{}', not none, sum or mean", reduction);
  return loss.cast(given.dtype());
}

void convert_negative_log_likelihood(NodeImport& n) {
  n.set(0, loss_of(n, Term::input(n, 0)));
}

void convert_softmax_cross_entropy(NodeImport& n) {
  const Term logarithms = log_softmax(Term::input(n, 0), 1);
  n.set(0, loss_of(n, logarithms));
  if (n.wants(1)) n.set(1, logarithms);
}

}  // namespace

void add_loss_converters(ConverterTable& table) {
  table.push_back({"NegativeLogLikelihoodLoss", 12, convert_negative_log_likelihood});
  table.push_back({"SoftmaxCrossEntropyLoss", 12, convert_softmax_cross_entropy});
}

}  // namespace gantry
