// TfIdfVectorizer: how often n-grams occur.
#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "host/onnx/converters.h"
#include "host/onnx/data_axes.h"
#include "host/onnx/dim_bounds.h"
#include "host/onnx/term.h"
#include "host/onnx/texts.h"

namespace gantry {
namespace {

/// The n-grams of one size, one after the other in `items`; the first is the node's n-gram number `first`.
struct Grams {
  int64_t size = 1, first = 0;
  std::vector<int64_t> items;
  int64_t count() const { return static_cast<int64_t>(items.size()) / size; }
};

/// The texts of the pool, each once.
std::vector<std::string> distinct_texts(NodeImport& n) {
  std::vector<std::string> texts;
  std::unordered_set<std::string> seen;
  for (const std::string& text : n.text_list("pool_strings")) {
    if (seen.insert(text).second) texts.push_back(text);
  }
  return texts;
}

/// Where each of `words` stands among `texts`.
std::vector<int64_t> numbers_of(const std::vector<std::string>& texts,
                                const std::vector<std::string>& words) {
  std::unordered_map<std::string, int64_t> places;
  for (const std::string& text : texts) places.emplace(text, static_cast<int64_t>(places.size()));
  std::vector<int64_t> numbers;
  for (const std::string& word : words) numbers.push_back(places.at(word));
  return numbers;
}

/// Rows of texts as those numbers; -1 for what the pool has not.
Term numbered(NodeImport& n, const Term& x) {
  const std::vector<std::string> texts = distinct_texts(n);
  std::vector<int64_t> places;  // from 1 on, so that the sum of no hit is 0
  for (size_t i = 0; i < texts.size(); ++i) places.push_back(static_cast<int64_t>(i) + 1);
  const Term hits = equal(x.unsqueezed(-1), Term(n, text_constant(n, texts)));
  return sum(where(hits, Term(n, index_constant(n, places)), 0), {-1}) - 1;
}

std::vector<Grams> read_grams(NodeImport& n) {
  const std::vector<int64_t> begins = n.integer_list("ngram_counts");
  std::vector<int64_t> pool = n.integer_list("pool_int64s");
  if (n.has_attribute("pool_strings")) pool = numbers_of(distinct_texts(n), n.text_list("pool_strings"));
  std::vector<Grams> all;
  int64_t next = 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    const int64_t end = i + 1 < begins.size() ? begins[i + 1] : static_cast<int64_t>(pool.size());
    const auto size = static_cast<int64_t>(i) + 1;
    if (begins[i] < 0 || end < begins[i] || end > static_cast<int64_t>(pool.size()) ||
        (end - begins[i]) % size != 0)
      n.fail("its ngram_counts do not fit a pool of {} items", pool.size());
    all.push_back({size, next, {pool.begin() + begins[i], pool.begin() + end}});
    next += all.back().count();
  }
  return all;
}

/// How often each n-gram (columns) occurs in rows x (N, C) with its items `distance` apart: f32.
Term occurrences(const Term& x, const Grams& grams, int64_t distance) {
  const Term pool =
      Term(x.node(), index_constant(x.node(), grams.items)).reshaped({grams.count(), grams.size});
  const Dim& length = x.dim(1);
  const Dim places = larger(length - (grams.size - 1) * distance, 0);
  std::optional<Term> all;
  for (int64_t k = 0; k < grams.size; ++k) {
    const Dim begin = smaller(k * distance, length - places);
    const Term item = pool.sliced(1, k, k + 1).reshaped({1, 1, grams.count()});
    const Term hit = equal(x.sliced(1, begin, begin + places).unsqueezed(-1), item);
    all = all ? both(*all, hit) : hit;
  }
  return sum(all->cast(DType::kF32), {1});
}

/// How many items may lie between neighbours of an n-gram of that size in rows x (N, C). Rows of a known
/// length hold no n-gram that skips more.
int64_t most_skipped(const Term& x, int64_t size) {
  if (size == 1) return 0;  // single items have nothing to skip
  NodeImport& n = x.node();
  constexpr int64_t kMost = 1024;  // each number of skipped items is counted by nodes of its own
  int64_t skips = n.integer("max_skip_count", 0);
  if (const auto length = x.dim(1).constant()) skips = std::min(skips, (*length - 1) / (size - 1) - 1);
  if (skips > kMost) n.unsupported(UnsupportedKind::kAttribute, "a max_skip_count above {}", kMost);
  return skips;
}

/// Counts (N, n-grams) of those that are long and short enough, and which they are.
Term count_grams(NodeImport& n, const Term& x, std::vector<int64_t>& which) {
  const int64_t shortest = n.integer("min_gram_length", 1), longest = n.integer("max_gram_length", 1);
  std::vector<Term> parts;
  for (const Grams& grams : read_grams(n)) {
    if (grams.size < shortest || grams.size > longest || grams.count() == 0) continue;
    Term total = occurrences(x, grams, 1);
    const int64_t skips = most_skipped(x, grams.size);
    for (int64_t skip = 1; skip <= skips; ++skip) total = total + occurrences(x, grams, skip + 1);
    parts.push_back(total);
    for (int64_t i = 0; i < grams.count(); ++i) which.push_back(grams.first + i);
  }
  parts.push_back(Term::filled(n, DType::kF32, 0, {x.dim(0), 1}));  // what columns without an n-gram read
  return concatenated(parts, 1);
}

/// Counts with the n-grams' weights.
Term weighted(NodeImport& n, const Term& counts, const std::vector<int64_t>& which) {
  const std::string mode = n.text("mode", "TF");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") n.fail("its mode is '{}'", mode);
  if (mode == "TF") return counts;
  const std::vector<double> given = n.number_list("weights");
  std::vector<float> own;
  for (const int64_t gram : which) {
    if (!given.empty() && gram >= static_cast<int64_t>(given.size()))
      n.fail("has {} weights, but n-gram {}", given.size(), gram);
    own.push_back(given.empty() ? 1.0f : static_cast<float>(given[static_cast<size_t>(gram)]));
  }
  own.push_back(0);
  const TensorType type{DType::kF32, {static_cast<int64_t>(own.size())}};
  const Term weights(n, n.constant_value(make_constant(type, own.data()), "weights"));
  return mode == "TFIDF" ? counts * weights : where(less(counts.number_like(0), counts), weights, 0);
}

/// How many columns the result has by the columns of the n-grams.
int64_t column_count(const NodeImport& n, const std::vector<int64_t>& indexes) {
  constexpr int64_t kMost = int64_t{1} << 27;  // a table of them is made here
  if (indexes.empty() || *std::ranges::min_element(indexes) < 0) n.fail("its ngram_indexes make no sense");
  const int64_t last = *std::ranges::max_element(indexes);
  if (last >= kMost) n.fail("its ngram_indexes go up to {}: gantry makes at most {} columns", last, kMost);
  return last + 1;
}

/// For each column which of the n-grams `which`, by their places there, it counts; their number where it
/// counts none. A column is mostly of one n-gram: another of it is in a further layer.
std::vector<std::vector<int64_t>> layers_of_columns(NodeImport& n, const std::vector<int64_t>& which,
                                                    const std::vector<int64_t>& indexes, int64_t columns) {
  const auto nothing = static_cast<int64_t>(which.size());
  std::vector<std::vector<int64_t>> layers;
  for (size_t i = 0; i < which.size(); ++i) {
    if (which[i] >= static_cast<int64_t>(indexes.size())) n.fail("has no index for n-gram {}", which[i]);
    const auto column = static_cast<size_t>(indexes[static_cast<size_t>(which[i])]);
    auto layer = std::ranges::find_if(layers, [&](const auto& l) { return l[column] == nothing; });
    if (layer == layers.end()) {
      if (!n.take_constant_budget(columns * static_cast<int64_t>(sizeof(int64_t))))
        n.fail("tables of {} columns, one for each n-gram that column {} has, are too large", columns,
               column);
      layer = layers.emplace(layers.end(), static_cast<size_t>(columns), nothing);
    }
    (*layer)[column] = static_cast<int64_t>(i);
  }
  return layers;
}

void convert_tfidf(NodeImport& n) {
  const Term input = Term::input(n, 0);
  const Term given = input.dtype() == DType::kString ? numbered(n, input) : input.cast(DType::kI64);
  if (given.rank() != 1 && given.rank() != 2) n.fail("its data {} should be rows", n.type(0).str());
  const Term x = given.rank() == 1 ? given.unsqueezed(0) : given;
  std::vector<int64_t> which;
  const Term counts = count_grams(n, x, which);
  const Term values = weighted(n, counts, which);
  const std::vector<int64_t> indexes = n.integer_list("ngram_indexes");
  const int64_t columns = column_count(n, indexes);
  const std::vector<std::vector<int64_t>> layers = layers_of_columns(n, which, indexes, columns);
  Term y = Term::filled(n, DType::kF32, 0, {x.dim(0), columns});
  for (size_t i = 0; i < layers.size(); ++i) {  // a column of several n-grams is their sum
    const Term layer = gather(values, Term(n, index_constant(n, layers[i])), 1);
    y = i == 0 ? layer : y + layer;
  }
  n.set(0, given.rank() == 1 ? y.squeezed(0) : y);
}

}  // namespace

void add_tfidf_converters(ConverterTable& table) {
  table.push_back({"TfIdfVectorizer", 9, convert_tfidf});
}

}  // namespace gantry
