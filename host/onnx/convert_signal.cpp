// Signal processing: Fourier transforms, windows, mel filters.
#include <cmath>
#include <numbers>

#include "host/onnx/converters.h"
#include "host/onnx/fourier.h"
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
Term whole_spectrum(const Term& half, int64_t n) {
  const Term mirrored = reversed(half.sliced(-2, 1, (n + 1) / 2), -2);
  const Term conjugate = concatenated({mirrored.sliced(-1, 0, 1), -mirrored.sliced(-1, 1, 2)}, -1);
  return n <= 2 ? half.sliced(-2, 0, n) : concatenated({half, conjugate}, -2);
}

struct Transform {
  std::optional<int64_t> length;
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
  int64_t length = 0;
  if (t.length) {
    length = *t.length;
  } else {
    if (!x.dim(-2).is_constant()) n.unsupported(UnsupportedKind::kRunTimeValue, "length of the transform");
    length = t.inverse && t.onesided ? 2 * (x.dim(-2).value() - 1) : x.dim(-2).value();
  }
  constexpr int64_t kLongest = 1 << 24;
  if (length < 1 || length > kLongest) n.fail("a transform of {} elements makes no sense", length);
  if (t.inverse && t.onesided) {
    Term half = with_length(x, -2, length / 2 + 1);
    if (parts.value() == 1) half = concatenated({half, half * 0}, -1);
    return fourier(whole_spectrum(half, length), true).sliced(-1, 0, 1).cast(given.dtype());
  }
  Term y = fourier(with_length(x, -2, length), t.inverse);
  if (t.onesided) y = y.sliced(-2, 0, length / 2 + 1);
  return y.cast(given.dtype());
}

/// With that axis as the second but last; its own inverse.
Term with_axis_before_parts(const Term& x, int64_t axis) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  std::swap(axes[static_cast<size_t>(axis)], axes[static_cast<size_t>(x.rank()) - 2]);
  return axis == x.rank() - 2 ? x : x.transposed(axes);
}

int64_t one_integer(NodeImport& n, size_t i, const char* what) {
  const std::vector<int64_t> values = n.integers(i, what);
  if (values.size() != 1) n.fail("its {} should be one integer", what);
  return values[0];
}

void convert_dft(NodeImport& n) {
  const Term x = Term::input(n, 0);
  if (x.rank() < 2) n.fail("its data {} have too few dimensions", n.type(0).str());
  int64_t axis = n.opset() < 20 ? n.integer("axis", 1) : -2;
  if (n.opset() >= 20 && n.has(2)) axis = one_integer(n, 2, "axis");
  axis = n.axis(axis, x.rank());
  if (axis == x.rank() - 1) n.fail("its axis {} is that of real and imaginary parts", axis);
  Transform t;
  if (n.has(1)) t.length = one_integer(n, 1, "dft_length");
  t.inverse = n.integer("inverse", 0) != 0;
  t.onesided = n.integer("onesided", 0) != 0;
  n.set(0, with_axis_before_parts(transformed(with_axis_before_parts(x, axis), t), axis));
}

/// Transforms of pieces of the signal (B, length, parts) that begin frame_step elements apart.
void convert_stft(NodeImport& n) {
  const Term x = Term::input(n, 0);
  if (x.rank() != 3) n.fail("its signal {} should have 3 dimensions", n.type(0).str());
  const int64_t step = one_integer(n, 1, "frame_step");
  if (step < 1) n.fail("its frame_step is {}", step);
  Dim length = x.dim(1);
  if (n.has(2)) length = n.type(2).shape.at(0);
  if (n.has(3)) length = one_integer(n, 3, "frame_length");
  if (!length.is_constant()) n.unsupported(UnsupportedKind::kRunTimeValue, "frame_length");
  const Dim frames = floordiv(x.dim(1) - length, step) + 1;
  const Term first = Term::range(n, frames) * static_cast<double>(step);
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
  const Shape size = n.dims(0, "size");
  if (size.size() != 1) n.fail("its size should be one integer");
  const DType dtype = n.has_attribute("output_datatype") ? n.element_type("output_datatype") : DType::kF32;
  const Dim period = n.integer("periodic", 1) != 0 ? size[0] : size[0] - 1;
  const Term angle = Term::range(n, size[0]).cast(DType::kF64) * (2 * std::numbers::pi) /
                     Term::range(n, 1, max(period, 1)).cast(DType::kF64);
  Term y = cos(angle) * first + constant;
  if (second != 0) y = y + cos(angle * 2) * second;
  n.set(0, y.cast(dtype));
}

/// Triangles between neighbouring points that are equally far apart on the mel scale (O'Shaughnessy, 1987),
/// with ONNX's rounding of the points to bins of the spectrum.
void convert_mel_weight_matrix(NodeImport& n) {
  const int64_t filters = one_integer(n, 0, "num_mel_bins"), length = one_integer(n, 1, "dft_length");
  const int64_t rate = one_integer(n, 2, "sample_rate");
  const double low = n.numbers(3, "lower_edge_hertz").at(0), high = n.numbers(4, "upper_edge_hertz").at(0);
  constexpr int64_t kMost = 1 << 20;
  if (filters < 1 || filters > kMost || length < 1 || length > kMost || rate < 1)
    n.fail("{} filters of {} elements at a rate of {} make no sense", filters, length, rate);
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const int64_t bins = length / 2 + 1;
  const double step = (mel(high) - mel(low)) / static_cast<double>(filters + 2);
  std::vector<int64_t> point;
  for (int64_t i = 0; i < filters + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (mel(low) + static_cast<double>(i) * step) / 2595) - 1);
    const auto at =
        static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate)));
    if (at < 0 || at >= bins) n.fail("its edges {} and {} lie outside of the spectrum", low, high);
    point.push_back(at);
  }
  std::vector<float> weights(static_cast<size_t>(bins * filters), 0);
  for (int64_t i = 0; i < filters; ++i) {
    const auto p = point.begin() + i;
    const auto set = [&](int64_t bin, int64_t from, int64_t span) {
      weights[static_cast<size_t>(bin * filters + i)] =
          span == 0
              ? 1.0f
              : static_cast<float>(static_cast<double>(std::abs(bin - from)) / static_cast<double>(span));
    };
    for (int64_t bin = p[0]; bin <= p[1]; ++bin) set(bin, p[0], p[1] - p[0]);
    for (int64_t bin = p[1]; bin < p[2]; ++bin) set(bin, p[2], p[2] - p[1]);
  }
  const Term matrix(
      n, n.constant_value(make_constant({DType::kF32, {bins, filters}}, weights.data()), "filters"));
  n.set(0, matrix.cast(n.has_attribute("output_datatype") ? n.element_type("output_datatype") : DType::kF32));
}

}  // namespace

void add_signal_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"DFT", 17, convert_dft},
      {"STFT", 17, convert_stft},
      {"HannWindow", 17, [](NodeImport& n) { convert_cosine_window(n, 0.5, -0.5, 0); }},
      {"HammingWindow", 17, [](NodeImport& n) { convert_cosine_window(n, 25.0 / 46, -21.0 / 46, 0); }},
      {"BlackmanWindow", 17, [](NodeImport& n) { convert_cosine_window(n, 0.42, -0.5, 0.08); }},
      {"MelWeightMatrix", 17, convert_mel_weight_matrix},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
