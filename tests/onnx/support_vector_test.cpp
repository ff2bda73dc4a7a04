// Support vector machines, against sums of their kernels in doubles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/onnx/classical.h"

namespace gantry {
namespace {

using namespace classical;  // NOLINT

/// Three classes of two, one and two vectors of two features.
struct Machine {
  std::vector<int64_t> starts{0, 2, 3, 5};
  Values vectors = elements(10, 21), coefficients = elements(10, 22), rho{0.25, -0.125, 0.0625};
  std::string attributes() const {
    return integers("vectors_per_class", {2, 1, 2}) + floats("support_vectors", vectors) +
           floats("coefficients", coefficients) + floats("rho", rho) +
           integers("classlabels_ints", {4, 5, 6});
  }
};

double kernel_of(const std::string& kind, const double* x, const double* v) {
  const double product = x[0] * v[0] + x[1] * v[1];
  if (kind == "RBF") return std::exp(-0.5 * ((x[0] - v[0]) * (x[0] - v[0]) + (x[1] - v[1]) * (x[1] - v[1])));
  if (kind == "POLY") return std::pow(0.5 * product + 0.25, 3);
  if (kind == "SIGMOID") return std::tanh(0.5 * product + 0.25);
  return product;
}
std::string kernel_attributes(const std::string& kind) {
  return text("kernel_type", kind) + floats("kernel_params", {0.5, 0.25, 3});
}

/// The scores of the pairs (0, 1), (0, 2), (1, 2) of a row, as LIBSVM's documentation lays its coefficients
/// out.
Values pair_scores(const Machine& machine, const std::string& kind, const double* x) {
  Values scores;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = i + 1; j < 3; ++j) {
      double total = machine.rho[scores.size()];
      const auto add = [&](size_t of, size_t against) {
        const size_t row = against > of ? against - 1 : against;
        for (auto v = static_cast<size_t>(machine.starts[of]);
             v < static_cast<size_t>(machine.starts[of + 1]); ++v)
          total += machine.coefficients[row * 5 + v] * kernel_of(kind, x, &machine.vectors[v * 2]);
      };
      add(i, j);
      add(j, i);
      scores.push_back(total);
    }
  }
  return scores;
}

TEST(SvmClassifier, TakesTheClassThatWinsMostPairs) {
  const Machine machine;
  const Given x = random({12, 2}, 5);
  for (const char* kind : {"LINEAR", "POLY", "RBF", "SIGMOID"}) {
    SCOPED_TRACE(kind);
    Values scores, labels;
    for (size_t row = 0; row < 12; ++row) {
      const Values s = pair_scores(machine, kind, &x.values[row * 2]);
      const int votes[] = {(s[0] > 0) + (s[1] > 0), (s[0] <= 0) + (s[2] > 0), (s[1] <= 0) + (s[2] <= 0)};
      labels.push_back(4 + static_cast<double>(std::max_element(votes, votes + 3) - votes));
      scores.insert(scores.end(), s.begin(), s.end());
    }
    const auto y =
        run("SVMClassifier", machine.attributes() + kernel_attributes(kind), {{"x", x}}, "label scores");
    expect_near(y[0], labels, 0);
    expect_near(y[1], scores, 1e-4);
  }
}

/// The p with the sum 1 that makes the sum over i and j of (r[j][i] p[i] - r[i][j] p[j])^2 least: three
/// equations of its gradient and a multiplier, solved by elimination.
Values coupled(const double (&r)[3][3]) {
  double m[4][5] = {{0, 0, 0, 1, 0}, {0, 0, 0, 1, 0}, {0, 0, 0, 1, 0}, {1, 1, 1, 0, 1}};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      if (i == j) continue;
      m[i][i] += r[j][i] * r[j][i];
      m[i][j] = -r[j][i] * r[i][j];
    }
  }
  for (int c = 0; c < 4; ++c) {
    int pivot = c;
    for (int i = c; i < 4; ++i) pivot = std::abs(m[i][c]) > std::abs(m[pivot][c]) ? i : pivot;
    std::swap(m[c], m[pivot]);
    for (int i = 0; i < 4; ++i) {
      const double factor = i == c ? 0 : m[i][c] / m[c][c];
      for (int k = c; k < 5; ++k) m[i][k] -= factor * m[c][k];
    }
  }
  return {m[0][4] / m[0][0], m[1][4] / m[1][1], m[2][4] / m[2][2]};
}

TEST(SvmClassifier, CouplesTheProbabilitiesOfPairs) {
  const Machine machine;
  const Given x = random({12, 2}, 6);
  const Values a{-1.5, -0.75, -1}, b{0.25, 0, -0.5};
  Values expected;
  for (size_t row = 0; row < 12; ++row) {
    const Values s = pair_scores(machine, "RBF", &x.values[row * 2]);
    double r[3][3] = {};
    for (size_t pair = 0, i = 0; i < 3; ++i) {
      for (size_t j = i + 1; j < 3; ++j, ++pair) {
        r[i][j] = 1 / (1 + std::exp(a[pair] * s[pair] + b[pair]));
        r[j][i] = 1 - r[i][j];
      }
    }
    const Values p = coupled(r);
    expected.insert(expected.end(), p.begin(), p.end());
  }
  const auto y =
      run("SVMClassifier",
          machine.attributes() + kernel_attributes("RBF") + floats("prob_a", a) + floats("prob_b", b),
          {{"x", x}}, "label scores");
  expect_near(y[1], expected, 5e-3);  // LIBSVM's algorithm ends where gradients are within 0.005 / 3
}

TEST(SvmClassifier, OfTwoClassesHasAScoreAndItsNegative) {
  const Given x = random({6, 2}, 7);
  const Values vectors{1, 0.5, -0.25, 2}, coefficients{0.75, -1.25};
  Values scores, labels;
  for (size_t row = 0; row < 6; ++row) {
    double s = 0.125;
    for (size_t v = 0; v < 2; ++v)
      s += coefficients[v] * kernel_of("RBF", &x.values[row * 2], &vectors[v * 2]);
    scores.insert(scores.end(), {-s, s});
    labels.push_back(s > 0 ? 4 : 5);
  }
  const auto y = run("SVMClassifier",
                     integers("vectors_per_class", {1, 1}) + floats("support_vectors", vectors) +
                         floats("coefficients", coefficients) + floats("rho", {0.125}) +
                         integers("classlabels_ints", {4, 5}) + kernel_attributes("RBF"),
                     {{"x", x}}, "label scores");
  expect_near(y[0], labels, 0);
  expect_near(y[1], scores, 1e-5);
}

TEST(SvmClassifier, OfOneLabelSaysWhetherTheScoreIsPositive) {
  const std::string machine =
      floats("coefficients", {0.5}) + floats("rho", {-0.25}) + integers("classlabels_ints", {1});
  const auto y = run("SVMClassifier", machine, {{"x", {{3, 1}, {1, 0, 0.5}}}}, "label scores");
  expect_near(y[0], {1, 0, 0}, 0);
  expect_near(y[1], {0.25, -0.25, 0}, 0);
}

TEST(SvmRegressor, AddsKernelsUp) {
  const Given x = random({6, 2}, 8);
  const Values vectors{1, 0.5, -0.25, 2}, coefficients{0.75, -1.25};
  for (const char* kind : {"LINEAR", "POLY", "RBF", "SIGMOID"}) {
    SCOPED_TRACE(kind);
    Values expected, sides;
    for (size_t row = 0; row < 6; ++row) {
      double y = -0.0625;
      for (size_t v = 0; v < 2; ++v)
        y += coefficients[v] * kernel_of(kind, &x.values[row * 2], &vectors[v * 2]);
      expected.push_back(y);
      sides.push_back(y > 0 ? 1 : -1);
    }
    const std::string attributes = floats("support_vectors", vectors) + floats("coefficients", coefficients) +
                                   floats("rho", {-0.0625}) + integer("n_supports", 2) +
                                   kernel_attributes(kind);
    expect_near(run("SVMRegressor", attributes, {{"x", x}})[0], expected, 1e-4);
    expect_near(run("SVMRegressor", attributes + integer("one_class", 1), {{"x", x}})[0], sides, 0);
  }
  const auto linear =
      run("SVMRegressor", floats("coefficients", {0.5, -0.25}) + floats("rho", {1}), {{"x", x}});
  for (size_t row = 0; row < 6; ++row)
    EXPECT_NEAR(linear[0][row], x.values[row * 2] * 0.5 - x.values[row * 2 + 1] * 0.25 + 1, 1e-5);
}

TEST(SvmClassifier, WithListsThatContradictEachOtherIsRefused) {
  const Machine machine;
  const Inputs x{{"x", random({2, 2}, 9)}}, wide{{"x", random({2, 3}, 9)}};
  EXPECT_THROW(run("SVMClassifier", machine.attributes() + floats("prob_a", {1}), x, "label scores"), Error);
  EXPECT_THROW(run("SVMClassifier", machine.attributes(), wide, "label scores"), Error);
  EXPECT_THROW(run("SVMClassifier", integers("classlabels_ints", {4, 5}), x, "label scores"), Error);
}

}  // namespace
}  // namespace gantry
