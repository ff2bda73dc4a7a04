// Einsum: operands are contracted pair by pair, each pair as one batched matrix product.
#include <algorithm>
#include <map>

#include "host/onnx/converters.h"
#include "host/onnx/required_dims.h"
#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/ops/reduce.h"

namespace gantry {
namespace {

/// A letter of the equation. The axes of an ellipsis get the digits '0', '1', … counted from the right.
using Labels = std::string;

/// A value whose axes carry labels, each once.
struct Term {
  Value* value;
  Labels labels;
};

bool contains(const Labels& labels, char label) {
  return labels.find(label) != Labels::npos;
}

/// Labels of one side of the equation; `rank` < 0: as many ellipsis axes as `ellipsis`.
Labels expand(NodeImport& n, const std::string& text, int rank, int ellipsis) {
  const size_t dots = text.find("...");
  const int letters = static_cast<int>(text.size()) - (dots == std::string::npos ? 0 : 3);
  const int hidden = rank < 0 ? ellipsis : rank - letters;
  if (hidden < 0 || (dots == std::string::npos && rank >= 0 && hidden != 0) || hidden > 10)
    n.fail("its equation's term '{}' does not fit an operand of rank {}", text, rank);
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == dots) {
      for (int axis = hidden; axis-- > 0;) labels += static_cast<char>('0' + axis);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      labels += text[i];
    } else {
      n.fail("its equation has an unexpected '{}'", text[i]);
    }
  }
  return labels;
}

Term transposed(NodeImport& n, const Term& term, const Labels& order) {
  if (term.labels == order) return term;
  std::vector<int64_t> axes;
  for (char label : order) axes.push_back(static_cast<int64_t>(term.labels.find(label)));
  return {n.transpose(term.value, axes), order};
}

/// Every n+1st element along the last axis, which has n times n.
Value* every_diagonal_element(NodeImport& n, Value* flat, const Dim& extent) {
  const Shape& shape = flat->type.shape;
  if (extent.is_constant()) {
    auto slice = std::make_shared<StridedSliceAttrs>();
    slice->begin = Shape(shape.size(), Dim(0));
    slice->end = shape;
    slice->strides.assign(shape.size(), 1);
    slice->strides.back() = extent.value() + 1;
    return n.add(op::strided_slice, {flat}, slice);
  }
  auto places = std::make_shared<ArangeAttrs>();
  places->start = 0;
  places->step = extent + 1;
  places->count = extent;
  auto last = std::make_shared<AxisAttrs>();
  last->axis = std::ssize(shape) - 1;
  return n.add(op::gather, {flat, n.add(op::arange, {}, places)}, last);
}

/// A label that occurs twice stands for the diagonal: the two axes become one, of which every n+1st element
/// stays.
Term diagonal(NodeImport& n, Term term) {
  for (size_t i = 0; i < term.labels.size(); ++i) {
    const size_t j = term.labels.find(term.labels[i], i + 1);
    if (j == Labels::npos) continue;
    std::vector<int64_t> axes;
    for (size_t d = 0; d < term.labels.size(); ++d) {
      if (d != i && d != j) axes.push_back(static_cast<int64_t>(d));
    }
    const size_t rest = axes.size();
    axes.push_back(static_cast<int64_t>(i));
    axes.push_back(static_cast<int64_t>(j));
    Value* value = n.transpose(term.value, axes);
    const Dim extent = value->type.shape[rest], other = value->type.shape[rest + 1];
    require_equal(n, extent, other, "takes diagonals of square matrices only, not of {}", value->type.str());
    Shape flat(value->type.shape.begin(), value->type.shape.begin() + static_cast<int64_t>(rest));
    flat.push_back(extent * other);
    value = every_diagonal_element(n, n.reshape(value, flat), extent);
    Labels labels;
    for (size_t d = 0; d < rest; ++d) labels += term.labels[static_cast<size_t>(axes[d])];
    return diagonal(n, {value, labels + term.labels[i]});
  }
  return term;
}

/// Sums over the labels that nothing else needs.
Term without_lonely(NodeImport& n, const Term& term, const Labels& needed) {
  auto attrs = std::make_shared<ReduceAttrs>();
  attrs->keepdims = false;
  Labels kept;
  for (size_t d = 0; d < term.labels.size(); ++d) {
    if (contains(needed, term.labels[d]))
      kept += term.labels[d];
    else
      attrs->axes.push_back(static_cast<int64_t>(d));
  }
  if (attrs->axes.empty()) return term;
  return {n.add(op::sum, {term.value}, attrs), kept};
}

Dim extent_of(const Term& term, const Labels& labels) {
  Dim extent = 1;
  for (char label : labels) extent = extent * term.value->type.shape[term.labels.find(label)];
  return extent;
}

/// The two as matrices with leading batch axes: a (batch…, rows, contracted), b (batch…, contracted,
/// columns).
Term contract(NodeImport& n, Term a, Term b, const Labels& needed) {
  a = without_lonely(n, a, needed + b.labels);
  b = without_lonely(n, b, needed + a.labels);
  Labels batch, contracted, rows, columns;
  for (char label : a.labels) {
    if (!contains(b.labels, label))
      rows += label;
    else
      (contains(needed, label) ? batch : contracted) += label;
  }
  for (char label : b.labels) {
    if (!contains(a.labels, label)) columns += label;
  }
  a = transposed(n, a, batch + rows + contracted);
  b = transposed(n, b, batch + contracted + columns);
  // Ellipsis axes of extent 1 broadcast, so batch axes stay axes of their own.
  auto leading = [&](const Term& t) {
    return Shape(t.value->type.shape.begin(),
                 t.value->type.shape.begin() + static_cast<int64_t>(batch.size()));
  };
  Shape a_shape = leading(a), b_shape = leading(b), a_rows, b_columns;
  for (char label : rows) a_rows.push_back(extent_of(a, {label}));
  for (char label : columns) b_columns.push_back(extent_of(b, {label}));
  a_shape.push_back(extent_of(a, rows));
  a_shape.push_back(extent_of(a, contracted));
  b_shape.push_back(extent_of(b, contracted));
  b_shape.push_back(extent_of(b, columns));
  Value* right = n.reshape(b.value, b_shape);
  Value* product = nullptr;
  if (batch.empty() && right->is_constant() && right->type.shape[1].value() > 0) {
    auto attrs = std::make_shared<DenseAttrs>();
    attrs->units = right->type.shape[1].value();
    product = n.add(nn::dense, {n.reshape(a.value, a_shape), right}, attrs);
  } else {
    product = n.add(op::matmul, {n.reshape(a.value, a_shape), right}, std::make_shared<MatmulAttrs>());
  }
  Shape shape = product->type.shape;
  shape.resize(batch.size());
  shape.insert(shape.end(), a_rows.begin(), a_rows.end());
  shape.insert(shape.end(), b_columns.begin(), b_columns.end());
  return {n.reshape(product, shape), batch + rows + columns};
}

/// The right-hand side where none is written: an ellipsis, then the labels that occur once, in alphabetical
/// order.
std::string implicit_result(const std::vector<std::string>& terms) {
  std::map<char, int> count;
  bool ellipsis = false;
  for (const std::string& term : terms) {
    ellipsis = ellipsis || term.find("...") != std::string::npos;
    for (char c : term) {
      if (c != '.') ++count[c];
    }
  }
  std::string result = ellipsis ? "..." : "";
  for (const auto& [label, times] : count) {
    if (times == 1) result += label;
  }
  return result;
}

void convert_einsum(NodeImport& n) {
  std::string equation = n.text("equation", "");
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  std::vector<std::string> texts(1);
  for (char c : equation.substr(0, arrow)) {
    if (c == ',')
      texts.emplace_back();
    else
      texts.back() += c;
  }
  if (texts.size() != n.input_count())
    n.fail("its equation '{}' names {} operands, but it has {}", equation, texts.size(), n.input_count());
  std::vector<Term> terms;
  int ellipsis = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    Labels labels = expand(n, texts[i], n.rank(i), 0);
    for (char label : labels) {
      if (std::isdigit(static_cast<unsigned char>(label))) ellipsis = std::max(ellipsis, label - '0' + 1);
    }
    terms.push_back(diagonal(n, {n.input(i), labels}));
  }
  const Labels result = expand(
      n, arrow == std::string::npos ? implicit_result(texts) : equation.substr(arrow + 2), -1, ellipsis);
  for (char label : result) {
    bool known = std::ranges::any_of(terms, [&](const Term& t) { return contains(t.labels, label); });
    if (!known || std::ranges::count(result, label) != 1)
      n.fail("its result '{}' should name labels of its operands, each once", result);
  }
  Term total = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    Labels needed = result;
    for (size_t later = i + 1; later < terms.size(); ++later) needed += terms[later].labels;
    total = contract(n, total, terms[i], needed);
  }
  n.set(0, transposed(n, without_lonely(n, total, result), result).value);
}

}  // namespace

void add_einsum_converters(ConverterTable& table) {
  table.push_back({"Einsum", 12, convert_einsum});
}

}  // namespace gantry
