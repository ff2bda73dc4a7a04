// Support vector machines of ai.onnx.ml. Probabilities: Wu, Lin and Weng, "Probability Estimates for
// Multi-class Classification by Pairwise Coupling", JMLR 5 (2004), algorithm 2.
#include "host/onnx/converters.h"
#include "host/onnx/ml_scores.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

/// `values` (count * columns) of the node's attribute as a matrix of the dtype of `x`.
Term matrix_like(const Term& x, const std::vector<double>& values, int64_t rows) {
  const auto all = static_cast<int64_t>(values.size());
  if (rows < 1 || all % rows != 0) x.node().fail("has {} numbers for {} vectors", all, rows);
  return numbers_like(x, values).reshaped({rows, all / rows});
}

/// The kernel of each row of x (N, features) with each of the vectors (V, features): (N, V).
Term kernel(const Term& x, const Term& vectors) {
  NodeImport& n = x.node();
  if (provably_different(x.dim(1), vectors.dim(1)))
    n.fail("has vectors of {} features for data {}", vectors.dim(1).str(), n.type(0).str());
  std::vector<double> params = n.number_list("kernel_params");
  if (!params.empty() && params.size() != 3) n.fail("its kernel_params should be gamma, coef0 and degree");
  params.resize(3, 0);
  const double gamma = params[0], offset = params[1], degree = params[2];
  const std::string kind = n.text("kernel_type", "LINEAR");
  if (kind == "RBF") return exp(sum(square(x.unsqueezed(1) - vectors), {-1}) * -gamma);
  const Term product = matmul_transposed(x, vectors);
  if (kind == "LINEAR") return product;
  const Term scaled = product * gamma + offset;
  if (kind == "SIGMOID") return tanh(scaled);
  if (kind == "POLY") return scaled.apply(op::power, scaled.number_like(degree));
  n.fail("its kernel_type is '{}'", kind);
}

Term linear_scores(const Term& x, const Term& coefficients, const std::vector<double>& rho) {
  return matmul_transposed(x, coefficients) + rho.at(0);
}

void convert_regressor(NodeImport& n) {
  const Term x = rows_of_features(n);
  const std::vector<double> coefficients = n.number_list("coefficients"), rho = n.number_list("rho");
  if (coefficients.empty() || rho.empty()) n.fail("lacks its coefficients or rho");
  const int64_t count = n.integer("n_supports", 0);
  const Term weights = matrix_like(x, coefficients, 1);
  if (count > 0 && provably_different(weights.dim(1), count))
    n.fail("has {} coefficients for {} vectors", coefficients.size(), count);
  const Term at = count > 0 ? kernel(x, matrix_like(x, n.number_list("support_vectors"), count)) : x;
  Term y = linear_scores(at, weights, rho);
  if (n.integer("one_class", 0) != 0) y = where(less(y.number_like(0), y), y.number_like(1), -1);
  n.set(0, y.cast(DType::kF32));
}

// --- classification between pairs of classes

/// Which vectors are whose, and the pairs of classes (0, 1), (0, 2), …, (1, 2), …, of which each has a score.
struct Pairs {
  std::vector<int64_t> starts;  ///< the first vector of each class, and their number
  std::vector<std::pair<int64_t, int64_t>> pairs;
  int64_t classes() const { return static_cast<int64_t>(starts.size()) - 1; }
  int64_t vectors() const { return starts.back(); }
  auto count() const { return static_cast<int64_t>(pairs.size()); }
};

Pairs read_pairs(NodeImport& n) {
  Pairs pairs{{0}, {}};
  for (const int64_t count : n.integer_list("vectors_per_class")) {
    if (count < 0 || count > (int64_t{1} << 40)) n.fail("a class has {} vectors", count);
    pairs.starts.push_back(pairs.starts.back() + count);
  }
  for (int64_t i = 0; i < pairs.classes(); ++i)
    for (int64_t j = i + 1; j < pairs.classes(); ++j) pairs.pairs.emplace_back(i, j);
  return pairs;
}

/// What each vector adds to the score of each pair, (vectors, pairs). Of `coefficients` (classes - 1,
/// vectors) a class' vectors have those against the other classes in a column: row k is against class k, or k
/// + 1 from their own on.
Term pair_weights(const Term& x, const Pairs& pairs, const std::vector<double>& coefficients) {
  std::vector<double> weights(static_cast<size_t>(pairs.vectors() * pairs.count()));
  const auto fill = [&](int64_t pair, int64_t of, int64_t row) {
    for (int64_t v = pairs.starts[static_cast<size_t>(of)]; v < pairs.starts[static_cast<size_t>(of) + 1];
         ++v)
      weights[static_cast<size_t>(v * pairs.count() + pair)] =
          coefficients[static_cast<size_t>(row * pairs.vectors() + v)];
  };
  for (int64_t p = 0; p < pairs.count(); ++p) {
    const auto [i, j] = pairs.pairs[static_cast<size_t>(p)];
    fill(p, i, j - 1);
    fill(p, j, i);
  }
  return matrix_like(x, weights, pairs.vectors());
}

/// The place of the class that wins most of its pairs, the first of several: (N).
Term most_voted(const Term& scores, const Pairs& pairs) {
  std::vector<double> first, second;
  for (const auto& [i, j] : pairs.pairs) {
    for (int64_t k = 0; k < pairs.classes(); ++k) {
      first.push_back(k == i ? 1 : 0);
      second.push_back(k == j ? 1 : 0);
    }
  }
  const auto table = [&](const std::vector<double>& votes) {
    return matrix_like(scores, votes, pairs.count()).cast(DType::kI32);
  };
  const Term wins = less(scores.number_like(0), scores).unsqueezed(-1);
  return best_classes(sum(where(wins, table(first), table(second)), {1}));
}

/// r (N, classes, classes): how likely the class of the row is rather than that of the column; 0 where they
/// are one.
Term pair_probabilities(const Term& scores, const Pairs& pairs) {
  NodeImport& n = scores.node();
  const std::vector<double> a = n.number_list("prob_a"), b = n.number_list("prob_b");
  constexpr double kLeast = 1e-7;
  const Term raw = sigmoid(-(scores * numbers_like(scores, a) + numbers_like(scores, b)));
  const Term p = minimum(maximum(raw, kLeast), 1 - kLeast);
  const int64_t k = pairs.classes();
  std::vector<double> place(static_cast<size_t>(k * k)), is_pair(place), is_turned(place);
  for (int64_t at = 0; at < pairs.count(); ++at) {
    const auto [i, j] = pairs.pairs[static_cast<size_t>(at)];
    place[static_cast<size_t>(i * k + j)] = place[static_cast<size_t>(j * k + i)] = static_cast<double>(at);
    is_pair[static_cast<size_t>(i * k + j)] = is_turned[static_cast<size_t>(j * k + i)] = 1;
  }
  const auto table = [&](const std::vector<double>& values) { return matrix_like(scores, values, k); };
  const Term all = gather(p, table(place).cast(DType::kI64), 1);
  return all * table(is_pair) + (1 - all) * table(is_turned);
}

/// What the pairs' probabilities r say of the classes, (N, classes): the p that makes p'Qp least, where
/// Q[t][t] = sum over j of r[j][t]^2 and Q[t][j] = -r[j][t] r[t][j]. Found as LIBSVM finds it, a class after
/// the other, until a row's p is near enough; rows that are not after kMostSteps rounds are closer than that
/// asks for in practice.
Term coupled(const Term& r) {
  constexpr int kMostSteps = 24;
  NodeImport& n = r.node();
  const int64_t k = r.dim(1).value();
  const Term turned = r.transposed({0, 2, 1});
  const Term own = sum(square(turned), {2});  // (N, k)
  std::vector<double> unit(static_cast<size_t>(k * k));
  for (int64_t t = 0; t < k; ++t) unit[static_cast<size_t>(t * k + t)] = 1;
  const Term identity = matrix_like(r, unit, k);
  const Term q = own.unsqueezed(-1) * identity - turned * r;
  Term p = Term::filled(n, r.dtype(), 1.0 / static_cast<double>(k), own.shape());
  for (int step = 0; step < kMostSteps; ++step) {
    Term qp = sum(q * p.unsqueezed(1), {2}), pqp = sum(p * qp, {1}, KeepAxes::kYes), next = p;
    const Term ends =
        less(largest(abs(qp - pqp), {1}, KeepAxes::kYes), pqp.number_like(0.005 / static_cast<double>(k)));
    for (int64_t t = 0; t < k; ++t) {
      const Term at = own.sliced(1, t, t + 1), of = qp.sliced(1, t, t + 1);
      const Term change = (pqp - of) / at, whole = change + 1;
      pqp = (pqp + change * (change * at + of * 2)) / square(whole);
      qp = (qp + change * q.sliced(1, t, t + 1).squeezed(1)) / whole;
      next = (next + change * identity.sliced(0, t, t + 1)) / whole;
    }
    p = where(ends, p, next);
  }
  return p;
}

/// The scores of two classes of which there is one.
Term both_scores(const Term& score, const std::string& transform) {
  if (transform == "PROBIT")
    score.node().unsupported(UnsupportedKind::kAttribute, "post_transform PROBIT of two classes");
  return concatenated({transform == "NONE" ? -score : 1 - score, score}, 1);
}

/// Without vectors: a score for each class.
void classify_linearly(NodeImport& n, const Term& x, int64_t classes) {
  const Term scores =
      linear_scores(x, matrix_like(x, n.number_list("coefficients"), classes), n.number_list("rho"));
  n.set(0, chosen_labels(scores, "classlabels_ints"));
  n.set(1, post_transformed(scores, n.text("post_transform", "NONE")).cast(DType::kF32));
}

void convert_classifier(NodeImport& n) {
  const int64_t classes = label_count(n, "classlabels_ints");
  const Term x = rows_of_features(n);
  const std::vector<double> coefficients = n.number_list("coefficients"), rho = n.number_list("rho");
  if (coefficients.empty() || rho.empty()) n.fail("lacks its coefficients or rho");
  const Pairs pairs = read_pairs(n);
  if (pairs.vectors() == 0) return classify_linearly(n, x, classes);
  if (pairs.classes() != classes || classes < 2)
    n.fail("has {} vectors_per_class for {} labels", pairs.classes(), classes);
  const auto expect = [&](const char* name, int64_t count) {
    const auto given = static_cast<int64_t>(n.number_list(name).size());
    if (given != count) n.fail("has {} {}, not {}", given, name, count);
  };
  expect("coefficients", (classes - 1) * pairs.vectors());
  expect("rho", pairs.count());
  const Term at = kernel(x, matrix_like(x, n.number_list("support_vectors"), pairs.vectors()));
  const Term scores = matmul(at, pair_weights(x, pairs, coefficients)) + numbers_like(x, rho);
  n.set(0, labels_at(most_voted(scores, pairs), "classlabels_ints"));
  const std::string transform = n.text("post_transform", "NONE");
  if (n.number_list("prob_a").empty()) {
    const Term given = classes == 2 ? both_scores(scores, transform) : post_transformed(scores, transform);
    return n.set(1, given.cast(DType::kF32));
  }
  expect("prob_a", pairs.count());
  expect("prob_b", pairs.count());
  n.set(1, post_transformed(coupled(pair_probabilities(scores, pairs)), transform).cast(DType::kF32));
}

}  // namespace

void add_svm_converters(ConverterTable& table) {
  table.push_back({"SVMRegressor", 1, convert_regressor, kClassical});
  table.push_back({"SVMClassifier", 1, convert_classifier, kClassical});
}

}  // namespace gantry
