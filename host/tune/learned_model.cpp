#include <xgboost/c_api.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "host/support/error.h"
#include "host/tune/cost_model.h"

namespace gantry::tune {
namespace {

/// So many examples tell something.
constexpr size_t kFewest = 12;
constexpr int kRounds = 60;
/// A tenth of the time is a margin of 1: what is predicted to take so much less wins, until examples say
/// otherwise.
constexpr double kMarginOfTenth = 10;

void expect(int status) {
  internal_check(status == 0, "XGBoost: {}", XGBGetLastError());
}

class Matrix {
 public:
  explicit Matrix(std::span<const Prospect* const> prospects) {
    const size_t columns = prospects.front()->features.size();
    std::vector<float> values, margins;
    for (const Prospect* one : prospects) {
      internal_check(one->features.size() == columns, "prospects with {} and {} features",
                     one->features.size(), columns);
      values.insert(values.end(), one->features.begin(), one->features.end());
      const double predicted = one->predicted.value_or(0);
      margins.push_back(predicted > 0 ? static_cast<float>(-kMarginOfTenth * std::log(predicted)) : 0);
    }
    expect(XGDMatrixCreateFromMat(values.data(), prospects.size(), columns, NAN, &handle_));
    expect(XGDMatrixSetFloatInfo(handle_, "base_margin", margins.data(), margins.size()));
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { XGDMatrixFree(handle_); }

  DMatrixHandle handle() const { return handle_; }
  void set_labels(const std::vector<float>& labels, const std::vector<unsigned>& group_sizes) {
    expect(XGDMatrixSetFloatInfo(handle_, "label", labels.data(), labels.size()));
    expect(XGDMatrixSetUIntInfo(handle_, "group", group_sizes.data(), group_sizes.size()));
  }

 private:
  DMatrixHandle handle_ = nullptr;
};

class Booster {
 public:
  explicit Booster(const Matrix& matrix) {
    const DMatrixHandle matrices[] = {matrix.handle()};
    expect(XGBoosterCreate(matrices, 1, &handle_));
    const std::pair<const char*, const char*> parameters[] = {{"objective", "rank:pairwise"},
                                                              {"eta", "0.2"},
                                                              {"max_depth", "5"},
                                                              {"min_child_weight", "0.2"},
                                                              {"lambda", "1"},
                                                              {"nthread", "1"},  // the same trees each time
                                                              {"seed", "0"},
                                                              {"verbosity", "0"}};
    for (const auto& [name, value] : parameters) expect(XGBoosterSetParam(handle_, name, value));
    for (int round = 0; round < kRounds; ++round)
      expect(XGBoosterUpdateOneIter(handle_, round, matrix.handle()));
  }
  Booster(const Booster&) = delete;
  Booster& operator=(const Booster&) = delete;
  ~Booster() { XGBoosterFree(handle_); }

  /// The higher, the faster.
  std::vector<double> margins(const Matrix& matrix, size_t rows) const {
    const bst_ulong* shape = nullptr;
    bst_ulong dimensions = 0;
    const float* result = nullptr;
    expect(XGBoosterPredictFromDMatrix(
        handle_, matrix.handle(),
        R"({"type": 1, "training": false, "iteration_begin": 0, "iteration_end": 0, "strict_shape": false})",
        &shape, &dimensions, &result));
    internal_check(dimensions > 0 && shape[0] == rows,
                   "XGBoost predicts of other rows than were asked about");
    return {result, result + rows};
  }

 private:
  BoosterHandle handle_ = nullptr;
};

class LearnedModel : public CostModel {
 public:
  void learn(std::span<const Example> examples) override {
    if (examples.size() < kFewest) return;
    std::vector<const Example*> sorted;
    for (const Example& one : examples) sorted.push_back(&one);
    std::ranges::stable_sort(sorted, {}, &Example::group);
    std::vector<const Prospect*> prospects;
    std::vector<float> labels;
    std::vector<unsigned> group_sizes;
    for (size_t i = 0; i < sorted.size(); ++i) {
      prospects.push_back(&sorted[i]->prospect);
      labels.push_back(static_cast<float>(-std::log(sorted[i]->cost)));
      if (i == 0 || sorted[i]->group != sorted[i - 1]->group) group_sizes.push_back(0);
      ++group_sizes.back();
    }
    Matrix matrix(prospects);
    matrix.set_labels(labels, group_sizes);
    booster_ = std::make_unique<Booster>(matrix);
  }

  std::vector<double> rank(std::span<const Prospect> prospects) const override {
    if (prospects.empty()) return {};
    if (!booster_) return make_analytic_model()->rank(prospects);
    std::vector<const Prospect*> rows;
    for (const Prospect& one : prospects) rows.push_back(&one);
    std::vector<double> margins = booster_->margins(Matrix(rows), rows.size());
    for (double& margin : margins) margin = -margin;
    return margins;
  }

  std::string_view name() const override { return "analytic and XGBoost"; }

 private:
  std::unique_ptr<Booster> booster_;
};

}  // namespace

std::unique_ptr<CostModel> make_learned_model() {
  return std::make_unique<LearnedModel>();
}

}  // namespace gantry::tune
