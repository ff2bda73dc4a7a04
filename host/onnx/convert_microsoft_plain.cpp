// Ops of com.microsoft that a formula or two say: semantics after ONNX Runtime's documentation of its contrib
// operators.
#include <limits>

#include "host/onnx/converters.h"
#include "host/onnx/dim_bounds.h"
#include "host/onnx/one_number.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/term.h"
#include "host/ops/norm.h"
#include "host/ops/scatter.h"
#include "host/ops/unary.h"

namespace gantry {
namespace {

void convert_expand_dims(NodeImport& n) {
  n.set(0, Term::input(n, 0).unsqueezed(one_integer(n, 1, "axis")));
}

/// The input as it is.
void convert_sample_op(NodeImport& n) {
  n.set(0, n.input(0));
}

/// Rows of a table. What else the node may have is for training.
void convert_torch_embedding(NodeImport& n) {
  n.set(0, gather(Term::input(n, 0), Term::input(n, 1), 0));
}

/// The last axis is that of real and imaginary parts; `sign` is that of the second operand's imaginary part.
void convert_complex_mul(NodeImport& n, double sign) {
  const Term a = Term::input(n, 0), b = Term::input(n, 1);
  for (const Term& x : {a, b}) {
    constexpr auto kText = "the last dimension of its data {} is not 2, for real and imaginary parts";
    if (x.rank() < 1) n.fail(kText, to_string(x.shape()));
    require_equal(n, x.dim(-1), 2, kText, to_string(x.shape()));
  }
  const Term a_real = a.sliced(-1, 0, 1), a_imaginary = a.sliced(-1, 1, 2), b_real = b.sliced(-1, 0, 1),
             b_imaginary = b.sliced(-1, 1, 2) * sign;
  n.set(0,
        concatenated(
            {a_real * b_real - a_imaginary * b_imaginary, a_real * b_imaginary + a_imaginary * b_real}, -1));
}

/// Of all inputs together: a bool. Its attributes leave infinities, or what is no number, aside.
void convert_is_all_finite(NodeImport& n) {
  const bool only_inf = n.integer("isinf_only", 0) != 0, only_nan = n.integer("isnan_only", 0) != 0;
  if (only_inf && only_nan) n.fail("has isinf_only and isnan_only");
  const auto is_bad = [&](const Term& x) {
    const Term nan = x.apply(op::isnan);
    const Term infinite = equal(abs(x), x.number_like(std::numeric_limits<double>::infinity()));
    return only_nan ? nan : only_inf ? infinite : either(nan, infinite);
  };
  Term found = Term::number(n, DType::kI64, 0);
  for (size_t i = 0; i < n.input_count(); ++i)
    found = found + sum(is_bad(Term::input(n, i)).cast(DType::kI64), {});
  n.set(0, equal(found, found.number_like(0)));
}

/// Tokens that would repeat an n-gram of the sequence (B, L) have minus infinity as their score (B, V).
void convert_ngram_repeat_block(NodeImport& n) {
  const Term ids = Term::input(n, 0), scores = Term::input(n, 1);
  const int64_t size = n.integer("ngram_size", 0);
  if (ids.rank() != 2 || scores.rank() != 2 || size < 1)
    n.fail("its tokens {} and scores {} should have 2 dimensions, and its ngram_size {} be positive",
           n.type(0).str(), n.type(1).str(), size);
  const Dim length = ids.dim(1), count = larger(length - (size - 1), 0);  // n-grams that there are
  if (count == Dim(0)) return n.set(0, scores);
  constexpr int64_t kLongest = 1024;  // each token of the n-grams is compared by nodes of its own
  if (size > kLongest) n.unsupported(UnsupportedKind::kAttribute, "an ngram_size above {}", kLongest);
  Term repeats = Term::filled(n, DType::kI32, 1, {ids.dim(0), count});
  for (int64_t i = 0; i < size - 1; ++i) {
    // Beside each n-gram, so that nothing is read where there is none.
    const Term place = Term::dimensions(n, {length - (size - 1) + i}).broadcast({count});
    const Dim begin = smaller(i, length);
    repeats = repeats * equal(ids.sliced(1, begin, begin + count), gather(ids, place, 1)).cast(DType::kI32);
  }
  auto attrs = std::make_shared<ScatterAttrs>();
  attrs->axis = 1;
  attrs->reduction = ScatterReduction::kMax;
  const Term none = Term::filled(n, DType::kI32, 0, scores.shape());
  const Term ends = ids.sliced(1, length - count, length);
  const Term blocked(n, n.add(op::scatter_elements, {none, ends, repeats}, attrs));
  n.set(0, where(less(blocked.number_like(0), blocked), -std::numeric_limits<double>::infinity(), scores));
}

/// Of queries and keys that come with their rotated halves; the angles are (B, L, size).
void convert_gemma_rotary_embedding(NodeImport& n) {
  const Term angle = Term::input(n, 0).unsqueezed(1);
  for (size_t i = 0; i < 2; ++i) {
    const Term x = Term::input(n, 1 + 2 * i), turned = Term::input(n, 2 + 2 * i);
    n.set(i, x * cos(angle).cast(x.dtype()) + turned * sin(angle).cast(x.dtype()));
  }
}

// --- with a bias

/// Over all axes from `axis` on together. That the bias broadcasts shows in its shape: is_inner_broadcast
/// says no more.
void convert_bias_softmax(NodeImport& n) {
  const Term x = Term::input(n, 0) + Term::input(n, 1);
  const int64_t axis = n.axis(n.integer("axis", 1), x.rank());
  const auto middle = x.shape().begin() + static_cast<std::ptrdiff_t>(axis);
  Shape rows(x.shape().begin(), middle);
  rows.push_back(element_count({middle, x.shape().end()}));
  n.set(0, softmax(x.reshaped(rows), -1).reshaped(x.shape()));
}

/// Refuses a dropout that drops; `ratio` is the input that has its ratio, the one behind says whether it
/// trains.
void expect_inference(NodeImport& n, size_t ratio) {
  if (!n.has(ratio + 1)) return;
  const auto mode = n.contents(ratio + 1);
  if (mode && mode->dims.size() == 1 && mode->dims[0] == Dim(0)) return;
  if (n.has(ratio) && n.constant(ratio)) {
    const std::vector<double> share = n.numbers(ratio, "ratio");
    if (share.size() == 1 && share[0] == 0) return;
  }
  n.unsupported(UnsupportedKind::kValueKind, "training_mode of {}", n.op_type());
}

/// Sets `y` and a mask for the elements of the data, which all stay: a bool each, or a bit each, of 32 to a
/// number.
void set_undropped(NodeImport& n, const Term& y, bool bits) {
  n.set(0, y);
  if (!n.wants(1)) return;
  const Shape shape = n.type(0).shape;
  if (!bits) return n.set(1, Term::filled(n, DType::kBool, 1, shape));
  n.set(1, Term::filled(n, DType::kU32, 4294967295.0, {ceildiv(element_count(shape), 32)}));
}

/// Inputs: data, bias, what is added behind the dropout, its ratio, and whether it trains.
void convert_bias_dropout(NodeImport& n, bool bits) {
  expect_inference(n, 3);
  const Term x = Term::input(n, 0) + Term::input(n, 1);
  set_undropped(n, n.has(2) ? x + Term::input(n, 2) : x, bits);
}

void convert_bitmask_dropout(NodeImport& n) {
  expect_inference(n, 1);
  set_undropped(n, Term::input(n, 0), true);
}

}  // namespace

void add_microsoft_plain_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"ExpandDims", 1, convert_expand_dims, kMicrosoft},
      {"SampleOp", 1, convert_sample_op, kMicrosoft},
      {"TorchEmbedding", 1, convert_torch_embedding, kMicrosoft},
      {"ComplexMul", 1, [](NodeImport& n) { convert_complex_mul(n, 1); }, kMicrosoft},
      {"ComplexMulConj", 1, [](NodeImport& n) { convert_complex_mul(n, -1); }, kMicrosoft},
      {"IsAllFinite", 1, convert_is_all_finite, kMicrosoft},
      {"NGramRepeatBlock", 1, convert_ngram_repeat_block, kMicrosoft},
      {"GemmaRotaryEmbedding", 1, convert_gemma_rotary_embedding, kMicrosoft},
      {"BiasSoftmax", 1, convert_bias_softmax, kMicrosoft},
      {"BiasDropout", 1, [](NodeImport& n) { convert_bias_dropout(n, false); }, kMicrosoft},
      {"BitmaskBiasDropout", 1, [](NodeImport& n) { convert_bias_dropout(n, true); }, kMicrosoft},
      {"BitmaskDropout", 1, convert_bitmask_dropout, kMicrosoft},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
