// Signal processing: Fourier transforms, windows, mel filters.
#include <cmath>
#include <numbers>

#include "host/onnx/converters.h"
#include "host/onnx/data_axes.h"
#include "host/onnx/fourier.h"
#include "host/onnx/one_number.h"
#include "host/onnx/required_dims.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

/// The last element first, on one axis.
Term reversed(const Term& x, int64_t axis) {
  return x.strided(axis, x.dim(axis) - 1, -1, -1);
}

/// The axis with so many elements: the first of them, or zeros after them.
Term with_length(const Term& x, int64_t axis, const Dim& length) {
  const Dim kept = min(x.dim(axis), length);
  const Term cut = x.sliced(axis, 0, kept);
  if (kept == length) return cut;
  auto pad = std::make_shared<PadAttrs>();
  pad->before.assign(static_cast<size_t>(x.rank()), 0);
  pad->after = pad->before;
  pad->after[static_cast<size_t>(x.node().axis(axis, x.rank()))] = length - kept;
  return {x.node(), x.node().add(op::pad, {cut}, pad)};
}

/// Complex numbers from their first half, n / 2 + 1 of them: the others are conjugates.
Term whole_spectrum(const Term& half, const Dim& n) {
  if (n.is_constant() && n.value() <= 2) return half.sliced(-2, 0, n);
  const Term mirrored = reversed(half.sliced(-2, 1, floordiv(n + 1, 2)), -2);
  const Term conjugate = concatenated({mirrored.sliced(-1, 0, 1), -mirrored.sliced(-1, 1, 2)}, -1);
  return concatenated({half, conjugate}, -2);
}

struct Transform {
  std::optional<Dim> length;
  bool inverse = false, onesided = false;
};

/// Over the second but last axis of (…, n, 1 or 2), in f32 at least.
Term transformed(const Term& given, const Transform& t) {
  const Term x = given.widened();
  NodeImport& n = x.node();
  const Dim parts = x.dim(-1);
  if (!parts.is_constant() || parts.value() < 1 || parts.value() > 2)
    n.fail("its data {} are neither real nor complex: the last dimension is not 1 or 2",
           to_string(given.shape()));
  const Dim length = t.length ? *t.length : t.inverse && t.onesided ? (x.dim(-2) - 1) * 2 : x.dim(-2);
  constexpr int64_t kLongest = 1 << 24;
  if (length.is_constant() && (length.value() < 1 || length.value() > kLongest))
    n.fail("a transform of {} elements makes no sense", length.value());
  const Dim half_length = floordiv(length, 2) + 1;
  if (t.inverse && t.onesided) {
    Term half = with_length(x, -2, half_length);
    if (parts.value() == 1) half = concatenated({half, half * 0}, -1);
    return fourier(whole_spectrum(half, length), true).sliced(-1, 0, 1).cast(given.dtype());
  }
  Term y = fourier(with_length(x, -2, length), t.inverse);
  if (t.onesided) {
    require_at_least(n, length, 1);
    y = y.sliced_inside(-2, 0, half_length);  // which is no more than that length
  }
  return y.cast(given.dtype());
}

/// With that axis as the second but last; its own inverse.
Term with_axis_before_parts(const Term& x, int64_t axis) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  std::swap(axes[static_cast<size_t>(axis)], axes[static_cast<size_t>(x.rank()) - 2]);
  return axis == x.rank() - 2 ? x : x.transposed(axes);
}

/// Along an axis that only the running model knows: of the tensor as a matrix whose columns run over it.
Term transformed_along(const Term& x, const Term& given_axis, const Transform& t) {
  NodeImport& n = x.node();
  if (!(given_axis.dim(0) == Dim(1))) n.fail("its axis should be one integer");
  const Term axis = where(less(given_axis, given_axis.number_like(0)), given_axis + x.rank(), given_axis);
  const Shape shape(x.shape().begin(), x.shape().end() - 1);  // without real and imaginary parts
  const AxesMatrix along = axes_matrix(n, shape, axis, {});
  std::vector<Term> parts;
  if (!x.dim(-1).is_constant())
    n.fail("the last dimension of its data {} is not known", to_string(x.shape()));
  for (int64_t part = 0; part < x.dim(-1).value(); ++part)
    parts.emplace_back(n, n.reshape(to_matrix(n, x.sliced(-1, part, part + 1).squeezed(-1), along),
                                    {along.rows, along.columns, 1}));
  const Term y = transformed(concatenated(parts, -1), t);
  AxesMatrix back = along;
  Shape result = shape;
  if (!(y.dim(1) == along.columns)) {  // the axis has another extent now
    const Term places = Term::range(n, static_cast<int64_t>(shape.size()));
    result = n.bind(where(equal(places, axis), Term::dimensions(n, {y.dim(1)}), Term::dimensions(n, shape)),
                    "sizes");
    back = axes_matrix(n, result, axis, {});
  }
  std::vector<Term> results;
  for (int64_t part = 0; part < y.dim(-1).value(); ++part)
    results.push_back(
        Term(n, from_matrix(n, y.sliced(-1, part, part + 1).squeezed(-1), back, result)).unsqueezed(-1));
  return concatenated(results, -1);
}

void convert_dft(NodeImport& n) {
  const Term x = Term::input(n, 0);
  if (x.rank() < 2) n.fail("its data {} have too few dimensions", n.type(0).str());
  Transform t;
  if (n.has(1)) t.length = one_dim(n, 1, "dft_length");
  t.inverse = n.integer("inverse", 0) != 0;
  t.onesided = n.integer("onesided", 0) != 0;
  if (n.opset() >= 20 && n.has(2) && !is_known_list(n, 2))
    return n.set(0, transformed_along(x, Term(n, as_index_vector(n, 2)), t));
  int64_t axis = n.opset() < 20 ? n.integer("axis", 1) : -2;
  if (n.opset() >= 20 && n.has(2)) axis = one_integer(n, 2, "axis");
  axis = n.axis(axis, x.rank());
  if (axis == x.rank() - 1) n.fail("its axis {} is that of real and imaginary parts", axis);
  n.set(0, with_axis_before_parts(transformed(with_axis_before_parts(x, axis), t), axis));
}

/// com.microsoft's Rfft and Irfft are of the last axis of real numbers, and know no other scaling.
void expect_usual_transform(NodeImport& n) {
  const int64_t axes = n.integer("signal_ndim", 1);
  if (axes != 1) n.unsupported(UnsupportedKind::kAttribute, "signal_ndim of {}", axes);
  if (n.integer("onesided", 1) != 1) n.fail("its onesided is {}, not 1", n.integer("onesided", 1));
  if (n.integer("normalized", 0) != 0) n.fail("its normalized is {}, not 0", n.integer("normalized", 0));
}

/// (…, n) -> (…, n / 2 + 1, 2).
void convert_rfft(NodeImport& n) {
  expect_usual_transform(n);
  if (n.rank(0) < 1) n.fail("its data have no axis");
  Transform t;
  t.onesided = true;
  n.set(0, transformed(Term::input(n, 0).unsqueezed(-1), t));
}

/// (…, n / 2 + 1, 2) -> (…, n), of an even n.
void convert_irfft(NodeImport& n) {
  expect_usual_transform(n);
  const Term x = Term::input(n, 0);
  if (x.rank() < 2 || provably_different(x.dim(-1), 2))
    n.fail("its data {} should have real and imaginary parts as their last dimension", n.type(0).str());
  Transform t;
  t.inverse = t.onesided = true;
  n.set(0, transformed(x, t).squeezed(-1));
}

/// Transforms of pieces of the signal (B, length, parts) that begin frame_step elements apart. A signal (B,
/// length) is real: not of the definition, but exporters write it, and ONNX Runtime takes it.
void convert_stft(NodeImport& n) {
  Term x = Term::input(n, 0);
  if (x.rank() == 2) x = x.unsqueezed(-1);
  if (x.rank() != 3) n.fail("its signal {} should have 3 dimensions", n.type(0).str());
  const Dim step = one_dim(n, 1, "frame_step");
  if (step.is_constant() && step.value() < 1) n.fail("its frame_step is {}", step.value());
  Dim length = x.dim(1);
  if (n.has(2)) {
    if (n.rank(2) != 1) n.fail("its window {} should be a vector", n.type(2).str());
    length = n.type(2).shape.front();
  }
  if (n.has(3)) length = one_dim(n, 3, "frame_length");
  const Dim frames = floordiv(x.dim(1) - length, step) + 1;
  const Term first = Term::range(n, frames) * Term::dimensions(n, {step});
  const Term at = first.reshaped({frames, 1}) + Term::range(n, length);
  Term pieces = gather(x, at, 1);  // (B, frames, length, parts)
  if (n.has(2)) pieces = pieces * Term::input(n, 2).reshaped({length, 1});
  Transform t;
  t.onesided = n.integer("onesided", 1) != 0;
  n.set(0, transformed(pieces, t));
}

// --- windows

/// constant + first * cos(2 pi i / N) + second * cos(4 pi i / N), N the size, or one less where it is not
/// periodic.
void convert_cosine_window(NodeImport& n, double constant, double first, double second) {
  const Dim size = one_dim(n, 0, "size");
  const DType dtype = n.has_attribute("output_datatype") ? n.element_type("output_datatype") : DType::kF32;
  const Dim period = n.integer("periodic", 1) != 0 ? size : size - 1;
  const Term angle = Term::range(n, size).cast(DType::kF64) * (2 * std::numbers::pi) /
                     Term::range(n, 1, max(period, 1)).cast(DType::kF64);
  Term y = cos(angle) * first + constant;
  if (second != 0) y = y + cos(angle * 2) * second;
  n.set(0, y.cast(dtype));
}

/// Triangles between neighbouring points that are equally far apart on the mel scale (O'Shaughnessy, 1987),
/// with ONNX's rounding of the points to bins of the spectrum. All five inputs may be data.
void convert_mel_weight_matrix(NodeImport& n) {
  const Dim filters = one_dim(n, 0, "num_mel_bins"), length = one_dim(n, 1, "dft_length");
  constexpr int64_t kMost = 1 << 20;
  for (const Dim& d : {filters, length}) {
    if (d.is_constant() && (d.value() < 1 || d.value() > kMost))
      n.fail("{} filters of {} elements make no sense", filters.str(), length.str());
  }
  const auto number = [&](size_t i) { return Term::input(n, i).reshaped({1}).cast(DType::kF64); };
  const Term rate = number(2);
  const double per_decade = std::numbers::ln10 / 2595;
  const auto mel = [&](const Term& hertz) { return log(hertz / 700 + 1) / per_decade; };
  const Term low = mel(number(3)), high = mel(number(4));
  const auto size = [&](const Dim& d) { return Term::dimensions(n, {d}).cast(DType::kF64); };
  const Term step = (high - low) / size(filters + 2);
  const Term hertz =
      (exp((low + Term::range(n, filters + 2).cast(DType::kF64) * step) * per_decade) - 1.0) * 700;
  const Term points = floor(size(length + 1) * hertz / rate);
  const Term begin = points.sliced(0, 0, filters), top = points.sliced(0, 1, filters + 1),
             end = points.sliced(0, 2, filters + 2);
  const Dim bins = floordiv(length, 2) + 1;
  const Term bin = Term::range(n, bins).cast(DType::kF64).reshaped({bins, 1});
  const auto share = [](const Term& part, const Term& span) {  // of nothing all
    return where(equal(span, span.number_like(0)), 1, part / maximum(span, 1));
  };
  const Term rises = both(less_equal(begin, bin), less_equal(bin, top));
  const Term falls = both(less_equal(top, bin), less(bin, end));
  const Term weights =
      where(falls, share(end - bin, end - top), where(rises, share(bin - begin, top - begin), 0));
  n.set(0,
        weights.cast(n.has_attribute("output_datatype") ? n.element_type("output_datatype") : DType::kF32));
}

}  // namespace

void add_signal_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"DFT", 17, convert_dft},
      {"STFT", 17, convert_stft},
      {"Rfft", 1, convert_rfft, kMicrosoft},
      {"Irfft", 1, convert_irfft, kMicrosoft},
      {"HannWindow", 17, [](NodeImport& n) { convert_cosine_window(n, 0.5, -0.5, 0); }},
      {"HammingWindow", 17, [](NodeImport& n) { convert_cosine_window(n, 25.0 / 46, -21.0 / 46, 0); }},
      {"BlackmanWindow", 17, [](NodeImport& n) { convert_cosine_window(n, 0.42, -0.5, 0.08); }},
      {"MelWeightMatrix", 17, convert_mel_weight_matrix},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
