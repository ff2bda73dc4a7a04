// TfIdfVectorizer, against counts of its n-grams one by one.
#include <gmock/gmock.h>

#include <limits>
#include <random>

#include "tests/onnx/classical.h"

namespace gantry {
namespace {

using namespace classical;  // NOLINT
using ::testing::HasSubstr;

/// How often the n-gram occurs with its items `skip` further apart than neighbours.
double occurrences(const Values& row, const std::vector<int64_t>& gram, int64_t skips) {
  double count = 0;
  for (int64_t distance = 1; distance <= (gram.size() == 1 ? 1 : skips + 1); ++distance) {
    const auto reach = (static_cast<int64_t>(gram.size()) - 1) * distance;
    for (int64_t at = 0; at + reach < static_cast<int64_t>(row.size()); ++at) {
      bool same = true;
      for (size_t k = 0; k < gram.size(); ++k)
        same = same && row[static_cast<size_t>(at + static_cast<int64_t>(k) * distance)] ==
                           static_cast<double>(gram[k]);
      count += same ? 1 : 0;
    }
  }
  return count;
}

TEST(TfIdfVectorizer, CountsNGramsWithTheirWeights) {
  const std::vector<std::vector<int64_t>> grams{{1}, {2}, {1, 2}, {2, 2}, {0, 1}, {1, 2, 0}};
  const std::vector<int64_t> columns{3, 0, 5, 2, 2, 6};  // one of two n-grams, two of none
  const Values weights{0.5, 2, 3, 0.25, 4, 1.5};
  Given x{{2, 12}, {}, DType::kI64};
  std::mt19937 random(4);
  for (int i = 0; i < 24; ++i) x.values.push_back(static_cast<double>(random() % 3));
  const std::string pool = integers("pool_int64s", {1, 2, 1, 2, 2, 2, 0, 1, 1, 2, 0}) +
                           integers("ngram_counts", {0, 2, 8}) + integers("ngram_indexes", columns) +
                           floats("weights", weights) + integer("min_gram_length", 1) +
                           integer("max_gram_length", 2) + integer("max_skip_count", 2);
  for (const std::string mode : {"TF", "IDF", "TFIDF"}) {
    Values expected(2 * 7, 0);
    for (size_t row = 0; row < 2; ++row) {
      const Values items(x.values.begin() + static_cast<std::ptrdiff_t>(row * 12),
                         x.values.begin() + static_cast<std::ptrdiff_t>(row * 12 + 12));
      for (size_t g = 0; g + 1 < grams.size(); ++g) {  // the last one is too long
        const double count = occurrences(items, grams[g], 2);
        expected[row * 7 + static_cast<size_t>(columns[g])] += mode == "TF"    ? count
                                                               : mode == "IDF" ? (count > 0 ? weights[g] : 0)
                                                                               : count * weights[g];
      }
    }
    const Inputs inputs{{"x", x}};
    const auto y = results(
        parse(node("TfIdfVectorizer", "x", "y", pool + text("mode", mode)), inputs, "y", kOpsets), inputs);
    expect_near(y[0], expected, 1e-6);
  }
}

TEST(TfIdfVectorizer, SkipsNoMoreItemsThanARowHas) {
  const Inputs x{{"x", {{8}, {1, 0, 2, 1, 2, 0, 0, 2}, DType::kI64}}};
  const std::string pairs = integers("pool_int64s", {1, 2}) + integers("ngram_counts", {0, 0}) +
                            integers("ngram_indexes", {0}) + integer("min_gram_length", 2) +
                            integer("max_gram_length", 2) + text("mode", "TF");
  const auto vectorizer = [&](int64_t skips) {
    return node("TfIdfVectorizer", "x", "y", pairs + integer("max_skip_count", skips));
  };
  const auto counted = [&](int64_t skips) {
    return results(parse(vectorizer(skips), x, "y", kOpsets), x)[0];
  };
  // 2 comes after 1 at the distances 2, 4, 7, 1 and 4.
  expect_near(counted(int64_t{1} << 40), {5}, 0);
  expect_near(counted(3), {4}, 0);
  try {
    imported_graph(open_input("x", "N", 7) + vectorizer(int64_t{1} << 40), "y");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a max_skip_count above 1024"));
  }
}

TEST(TfIdfVectorizer, MoreColumnsThanAnyMemoryHoldsAreRefused) {
  const Inputs x{{"x", {{3}, {1, 2, 2}, DType::kI64}}};
  const auto imported = [&](const std::vector<int64_t>& columns, const ImportOptions& options) {
    const std::string vectorizer = node(
        "TfIdfVectorizer", "x", "y",
        integers("pool_int64s", {1, 2}) + integers("ngram_counts", {0}) + integers("ngram_indexes", columns) +
            integer("min_gram_length", 1) + integer("max_gram_length", 1) + text("mode", "TF"));
    return import_onnx_bytes(parse(vectorizer, x, "y", kOpsets).SerializeAsString(), ".", options);
  };
  const auto expect_refused = [&](const std::vector<int64_t>& columns, const ImportOptions& options) {
    try {
      imported(columns, options);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_THAT(error.what(), HasSubstr("node y (TfIdfVectorizer): "));
    }
  };
  for (const int64_t last : {int64_t{1} << 33, int64_t{1} << 62, std::numeric_limits<int64_t>::max()})
    expect_refused({0, last}, {});
  // A table of ten columns for each n-gram of the last.
  ImportOptions options;
  options.constant_budget = 2 * 10 * 8;
  EXPECT_NO_THROW(imported({9, 9}, options));
  options.constant_budget -= 1;
  expect_refused({9, 9}, options);
}

}  // namespace
}  // namespace gantry
