// Feature processing and linear models of ai.onnx.ml on numbers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "host/graph/strings.h"
#include "host/onnx/converters.h"
#include "host/onnx/data_axes.h"
#include "host/onnx/ml_scores.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/texts.h"
#include "host/ops/elementwise.h"
#include "host/ops/reduce.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

/// Elements of the last axis at those places; a vector counts as a row.
void convert_array_feature_extractor(NodeImport& n) {
  const Term x = Term::input(n, 0), rows = x.rank() == 1 ? x.unsqueezed(0) : x;
  const Term at(n, as_index_list(n, 1));
  n.set(0, gather(rows, at, -1));
}

/// One integer, exactly: a double holds 53 bits of it.
Term whole_number(NodeImport& n, DType dtype, int64_t value) {
  return Term(n, n.constant_value(make_constant({DType::kI64, {}}, &value), "integer")).cast(dtype);
}

/// Where elements are above the threshold, as numbers. Integers are if they are above its floor: as one of
/// them it would be rounded towards zero. All are above what is less than any of their type, and none above
/// NaN.
Term above(const Term& x, double threshold) {
  NodeImport& n = x.node();
  const DType dtype = x.dtype();
  if (!is_signed_int(dtype) && !is_unsigned_int(dtype)) return less(x.number_like(threshold), x);
  const double floor = std::floor(threshold);
  const int64_t nearest = float_to_integer(dtype, floor);  // that the type has
  const bool all = floor < integer_to_float(dtype, nearest);
  if (all || std::isnan(floor)) return Term::filled(n, DType::kBool, all ? 1 : 0, x.shape());
  return less(whole_number(n, dtype, nearest), x);
}

/// One where an element is above the threshold, else zero.
void convert_binarizer(NodeImport& n) {
  const Term x = Term::input(n, 0);
  n.set(0, above(x, n.number("threshold", 0)).cast(x.dtype()));
}

void convert_scaler(NodeImport& n) {
  Term x = as_float(Term::input(n, 0));
  const std::vector<double> offset = n.number_list("offset"), scale = n.number_list("scale");
  if (!offset.empty()) x = x - numbers_like(x, offset);
  if (!scale.empty()) x = x * numbers_like(x, scale);
  n.set(0, x.cast(DType::kF32));
}

/// Rows divided by their norm; those of norm 0 stay as they are.
void convert_normalizer(NodeImport& n) {
  const Term x = as_float(Term::input(n, 0));
  const std::string name = n.text("norm", "MAX");
  const auto norm = [&]() -> Term {
    if (name == "MAX") return largest(x, {-1}, KeepAxes::kYes);
    if (name == "L1") return sum(abs(x), {-1}, KeepAxes::kYes);
    if (name == "L2") return sqrt(sum(square(x), {-1}, KeepAxes::kYes));
    n.fail("its norm is '{}'", name);
  }();
  n.set(0, (x / where(equal(norm, norm.number_like(0)), 1, norm)).cast(DType::kF32));
}

/// Elements that are missing become what the node lists, one for all columns or one for each.
void convert_imputer(NodeImport& n) {
  const Term x = Term::input(n, 0);
  const std::vector<double> floats = n.number_list("imputed_value_floats");
  const std::vector<int64_t> integers = n.integer_list("imputed_value_int64s");
  const bool is_whole = !is_float(x.dtype());
  if (is_whole ? integers.empty() : floats.empty()) n.fail("does not say what missing values become");
  if (is_whole) {
    const Term replaced = whole_number(n, x.dtype(), n.integer("replaced_value_int64", 0));
    const Term imputed = Term(n, index_constant(n, integers)).cast(x.dtype());
    return n.set(0, where(equal(x, replaced), imputed, x));
  }
  const double replaced = n.number("replaced_value_float", 0);
  const Term is_missing = std::isnan(replaced) ? x.apply(op::isnan) : equal(x, x.number_like(replaced));
  n.set(0, where(is_missing, numbers_like(x, floats), x));
}

/// Inputs side by side, each as wide as `inputdimensions` says: cut off, or filled up with zeros. A vector
/// counts as a row.
void convert_feature_vectorizer(NodeImport& n) {
  const std::vector<int64_t> widths = n.integer_list("inputdimensions");
  std::vector<Term> parts;
  for (size_t i = 0; i < n.input_count(); ++i) {
    Term x = Term::input(n, i).cast(DType::kF32);
    if (x.rank() == 1) x = x.unsqueezed(0);
    if (x.rank() != 2) n.fail("its input {} should be a matrix", i);
    const Dim width = i < widths.size() ? Dim(widths[i]) : x.dim(1);
    const Dim kept = min(x.dim(1), width);
    parts.push_back(x.sliced(1, 0, kept));
    if (!(kept == width)) parts.push_back(Term::filled(n, DType::kF32, 0, {x.dim(0), width - kept}));
  }
  n.set(0, concatenated(parts, 1));
}

/// One at the category that an element is, of all that the node lists; zeros where it is none of them.
void convert_one_hot_encoder(NodeImport& n) {
  const std::vector<int64_t> categories = n.integer_list("cats_int64s");
  const std::vector<std::string> texts = n.text_list("cats_strings");
  const bool of_texts = Term::input(n, 0).dtype() == DType::kString;
  if (of_texts ? texts.empty() : categories.empty()) n.fail("has no categories of its data's type");
  if (n.integer("zeros", 1) == 0) {
    n.warn(fmt::format(
        "node {} (OneHotEncoder): an element that is none of its categories becomes zeros, though its zeros "
        "is 0, which asks for an error",
        n.name()));
  }
  if (of_texts) {
    const Term words(n, text_constant(n, texts));
    return n.set(0, equal(Term::input(n, 0).unsqueezed(-1), words).cast(DType::kF32));
  }
  const Term x = Term::input(n, 0).cast(DType::kI64).unsqueezed(-1);
  n.set(0, equal(x, Term(n, index_constant(n, categories))).cast(DType::kF32));
}

// --- LabelEncoder

/// A table: list attributes of floats, integers or texts, or a tensor.
struct Column {
  std::vector<double> floats;
  std::vector<int64_t> integers;
  std::vector<std::string> texts = {};
  DType dtype = DType::kF32;
  size_t size() const { return std::max({floats.size(), integers.size(), texts.size()}); }
  Term constant(NodeImport& n) const {
    if (!texts.empty()) return Term(n, text_constant(n, texts));
    if (!integers.empty()) return Term(n, index_constant(n, integers)).cast(dtype);
    const TensorType type{DType::kF64, {static_cast<int64_t>(floats.size())}};
    return Term(n, n.constant_value(make_constant(type, floats.data()), "labels")).cast(dtype);
  }
};

Column read_column(NodeImport& n, const std::string& name) {
  const auto attribute = [&](const char* kind) { return name + kind; };
  Column column;
  if (n.has_attribute(attribute("_strings").c_str())) {
    column.dtype = DType::kString;
    column.texts = n.text_list(attribute("_strings").c_str());
    return column;
  }
  if (n.has_attribute(attribute("_tensor").c_str())) {
    const ConstantPtr tensor = n.tensor(attribute("_tensor").c_str());
    column.dtype = tensor->type.dtype;
    if (column.dtype == DType::kString)
      column.texts = strings_of(*tensor);
    else if (column.dtype == DType::kI64)
      column.integers.assign(tensor->as<int64_t>(), tensor->as<int64_t>() + tensor->size / sizeof(int64_t));
    else
      column.floats = n.tensor_numbers(attribute("_tensor").c_str());
  } else if (n.has_attribute(attribute("_int64s").c_str())) {
    column.integers = n.integer_list(attribute("_int64s").c_str());
    column.dtype = DType::kI64;
  } else {
    column.floats = n.number_list(attribute("_floats").c_str());
  }
  return column;
}

/// The attribute default_tensor as a scalar; null where the node has none. It should be one element: a text
/// where the values are texts, else a number.
ConstantPtr default_tensor(NodeImport& n, DType dtype) {
  const ConstantPtr given = n.tensor("default_tensor");
  if (!given) return nullptr;
  const bool texts = dtype == DType::kString;
  if (!(element_count(given->type.shape) == Dim(1)) || (given->type.dtype == DType::kString) != texts)
    n.fail("its default_tensor {} should be one {}", given->type.str(), texts ? "text" : "number");
  return make_constant({given->type.dtype, {}}, given->bytes);
}

/// What elements without a key become: of the values' type.
Term default_value(NodeImport& n, DType dtype) {
  if (const ConstantPtr given = default_tensor(n, dtype))
    return Term(n, n.constant_value(given, "default")).cast(dtype);
  if (dtype == DType::kString)
    return {n, n.constant_value(make_strings({}, {n.text("default_string", "_Unused")}), "default")};
  if (is_float(dtype)) return Term::number(n, dtype, n.number("default_float", -0.0));
  return whole_number(n, dtype, n.integer("default_int64", -1));
}

/// Values of the keys that elements are equal to, the last of them. `nan_is_a_key`: one that is NaN means
/// NaN.
void map_labels(NodeImport& n, const Column& keys, const Column& values, bool nan_is_a_key) {
  if (keys.size() == 0 || keys.size() != values.size())
    n.fail("has {} keys and {} values", keys.size(), values.size());
  const Term x = Term::input(n, 0), element = x.unsqueezed(-1), key = keys.constant(n).cast(x.dtype());
  Term hits = equal(element, key);
  if (nan_is_a_key && std::ranges::any_of(keys.floats, [](double k) { return std::isnan(k); }))
    hits = either(hits, both(element.apply(op::isnan), key.apply(op::isnan)));
  auto attrs = std::make_shared<ArgReduceAttrs>();
  attrs->axis = x.rank();
  attrs->keepdims = false;
  attrs->select_last = true;
  const Term chosen = hits.cast(DType::kI32), place(n, n.add(op::argmax, {chosen}, attrs));
  const Term count = sum(chosen, {-1});
  const Term value = gather(values.constant(n), place, 0);
  n.set(0, where(equal(count, count.number_like(0)), default_value(n, values.dtype), value));
}

void convert_label_encoder(NodeImport& n, bool nan_is_a_key) {
  map_labels(n, read_column(n, "keys"), read_column(n, "values"), nan_is_a_key);
}

/// Texts to numbers, or numbers to texts, by the element type of the data.
void map_texts(NodeImport& n, const std::vector<std::string>& texts, const std::vector<int64_t>& numbers) {
  const Column words{{}, {}, texts, DType::kString}, places{{}, numbers, {}, DType::kI64};
  const bool from_texts = Term::input(n, 0).dtype() == DType::kString;
  map_labels(n, from_texts ? words : places, from_texts ? places : words, false);
}

/// A text's place among the classes.
void convert_first_label_encoder(NodeImport& n) {
  const std::vector<std::string> classes = n.text_list("classes_strings");
  std::vector<int64_t> places(classes.size());
  std::iota(places.begin(), places.end(), 0);
  map_texts(n, classes, places);
}

void convert_category_mapper(NodeImport& n) {
  map_texts(n, n.text_list("cats_strings"), n.integer_list("cats_int64s"));
}

// --- maps

/// A map for each row, from the labels to the row's scores: what is between is the matrix of the scores.
void convert_zip_map(NodeImport& n) {
  const bool texts = !n.text_list("classlabels_strings").empty();
  const int64_t labels = label_count(n, "classlabels_int64s");
  if (labels == 0) n.fail("has neither classlabels_int64s nor classlabels_strings");
  const Term scores = Term::input(n, 0);
  if (scores.rank() > 2) n.fail("its data {} should have at most 2 dimensions", n.type(0).str());
  if (scores.rank() == 0 || provably_different(scores.dim(-1), labels))
    n.fail("has {} labels for data {}", labels, n.type(0).str());
  require_equal(n, scores.dim(-1), labels);
  n.warn(fmt::format(
      "node {} (ZipMap): instead of a sequence of maps there is a matrix, a row for each map, with a column "
      "for each entry of {}, in their order",
      n.name(), texts ? "classlabels_strings" : "classlabels_int64s"));
  n.set(0, scores.rank() == 1 ? scores.unsqueezed(0) : scores);
}

// --- linear models

/// x times the rows of `coefficients`, of which there are `count`, plus intercepts.
Term linear(const Term& x, int64_t count) {
  NodeImport& n = x.node();
  const std::vector<double> coefficients = n.number_list("coefficients"),
                            intercepts = n.number_list("intercepts");
  const auto all = static_cast<int64_t>(coefficients.size());
  if (count < 1 || all % count != 0) n.fail("has {} coefficients for {} results", all, count);
  Term y = matmul_transposed(x, numbers_like(x, coefficients).reshaped({count, all / count}));
  if (!intercepts.empty()) y = y + numbers_like(x, intercepts);
  return y;
}

void convert_linear_regressor(NodeImport& n) {
  const Term y = linear(rows_of_features(n), n.integer("targets", 1));
  n.set(0, post_transformed(y, n.text("post_transform", "NONE")).cast(DType::kF32));
}

void convert_linear_classifier(NodeImport& n) {
  const int64_t labels = label_count(n, "classlabels_ints");
  const Term x = rows_of_features(n);
  const auto features = x.dim(1).constant();
  if (!features || *features == 0) n.unsupported(UnsupportedKind::kRunTimeValue, "number of features");
  Term scores = linear(x, static_cast<int64_t>(n.number_list("coefficients").size()) / *features);
  if (scores.dim(1) == Dim(1) && labels == 2) scores = concatenated({-scores, scores}, 1);
  n.set(0, chosen_labels(scores, "classlabels_ints"));
  n.set(1, post_transformed(scores, n.text("post_transform", "NONE")).cast(DType::kF32));
}

}  // namespace

void add_classical_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"ArrayFeatureExtractor", 1, convert_array_feature_extractor, kClassical},
      {"Binarizer", 1, convert_binarizer, kClassical},
      {"Scaler", 1, convert_scaler, kClassical},
      {"Normalizer", 1, convert_normalizer, kClassical},
      {"Imputer", 1, convert_imputer, kClassical},
      {"FeatureVectorizer", 1, convert_feature_vectorizer, kClassical},
      {"OneHotEncoder", 1, convert_one_hot_encoder, kClassical},
      {"CategoryMapper", 1, convert_category_mapper, kClassical},
      {"LabelEncoder", 1, convert_first_label_encoder, kClassical},
      {"LabelEncoder", 2, [](NodeImport& n) { convert_label_encoder(n, false); }, kClassical},
      {"LabelEncoder", 4, [](NodeImport& n) { convert_label_encoder(n, true); }, kClassical},
      {"ZipMap", 1, convert_zip_map, kClassical},
      {"LinearRegressor", 1, convert_linear_regressor, kClassical},
      {"LinearClassifier", 1, convert_linear_classifier, kClassical},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
