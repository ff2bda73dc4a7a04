#include "host/onnx/fourier.h"

#include <cmath>
#include <numbers>

#include "host/ops/elementwise.h"

namespace gantry {
namespace {

/// cos and sin of 2 pi (numerator mod n) / n.
std::pair<double, double> turn(int64_t numerator, int64_t n) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(numerator % n) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

Term table(NodeImport& n, const std::vector<double>& values, Shape shape, DType dtype) {
  const TensorType type{DType::kF64, std::move(shape)};
  if (dtype == DType::kF64) return {n, n.constant_value(make_constant(type, values.data()), "turns")};
  const std::vector<float> narrow(values.begin(), values.end());
  return {n, n.constant_value(make_constant({DType::kF32, type.shape}, narrow.data()), "turns")};
}

/// The transform of the second but last axis by one product: (…, n, parts) -> (…, n, 2).
Term by_matrix(const Term& x, int64_t n, double sign) {
  const int64_t parts = x.dim(-1).value();
  // Row (j, part), column (k, real or imaginary).
  std::vector<double> matrix(static_cast<size_t>(n * parts * n * 2));
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t k = 0; k < n; ++k) {
      const auto [cosine, sine] = turn(j * k, n);
      const auto at = [&](int64_t part, int64_t component) -> double& {
        return matrix[static_cast<size_t>(((j * parts + part) * n + k) * 2 + component)];
      };
      at(0, 0) = cosine;
      at(0, 1) = sign * sine;
      if (parts == 2) {
        at(1, 0) = -sign * sine;
        at(1, 1) = cosine;
      }
    }
  }
  Shape flat(x.shape().begin(), x.shape().end() - 2), result = flat;
  flat.push_back(n * parts);
  result.push_back(n);
  result.push_back(2);
  if (x.rank() == 2) flat.insert(flat.begin(), 1);
  return matmul(x.reshaped(flat), table(x.node(), matrix, {n * parts, n * 2}, x.dtype())).reshaped(result);
}

/// A factor of n by which to split, not the smallest: products with small matrices are mostly traffic. n:
/// none.
int64_t split_of(int64_t n) {
  constexpr int64_t kWhole = 32;  // transforms so short are one product
  if (n <= kWhole) return n;
  for (int64_t factor = kWhole; factor > 1; --factor) {
    if (n % factor == 0) return factor;
  }
  return n;
}

Term transform(const Term& x, double sign) {
  const int64_t n = x.dim(-2).value(), a = split_of(n);
  if (a == n) return by_matrix(x, n, sign);
  const int64_t b = n / a;
  const auto rank = static_cast<int64_t>(x.rank());
  const Shape leading(x.shape().begin(), x.shape().end() - 2);
  const auto with = [&](std::initializer_list<Dim> last) {
    Shape shape = leading;
    shape.insert(shape.end(), last.begin(), last.end());
    return shape;
  };
  const auto swapped = [&](const Term& t) {  // the two axes before the parts
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < rank - 2; ++axis) axes.push_back(axis);
    axes.insert(axes.end(), {rank - 1, rank - 2, rank});
    return t.transposed(axes);
  };
  // j = j1 b + j2 and k = k1 + a k2: transforms of length a over j1, turned by j2 k1, then of length b over
  // j2.
  const Term columns = swapped(x.reshaped(with({a, b, x.dim(-1)})));  // (…, j2, j1, parts)
  const Term first = by_matrix(columns, a, sign);                     // (…, j2, k1, 2)
  std::vector<double> cosines, sines;
  for (int64_t j = 0; j < b; ++j) {
    for (int64_t k = 0; k < a; ++k) {
      const auto [cosine, sine] = turn(j * k, n);
      cosines.push_back(cosine);
      sines.push_back(sign * sine);
    }
  }
  const Term cosine = table(x.node(), cosines, {b, a, 1}, x.dtype()),
             sine = table(x.node(), sines, {b, a, 1}, x.dtype());
  const Term real = first.sliced(-1, 0, 1), imaginary = first.sliced(-1, 1, 2);
  const Term turned = concatenated({real * cosine - imaginary * sine, real * sine + imaginary * cosine}, -1);
  const Term second = transform(swapped(turned), sign);  // (…, k1, k2, 2)
  return swapped(second).reshaped(with({n, 2}));         // (…, k2, k1, 2)
}

/// The same by one product, with a matrix that the running model computes: only it knows n.
Term by_computed_matrix(const Term& x, double sign) {
  NodeImport& node = x.node();
  const Dim& n = x.dim(-2);
  const Term index = Term::range(node, n), length = Term::dimensions(node, {n});
  const Term product = index.unsqueezed(1) * index.unsqueezed(0);
  const Term turns(node, node.add(op::mod, {product, length}, std::make_shared<ModAttrs>()));
  const Term angle = turns.cast(DType::kF64) * (2 * std::numbers::pi) / length.cast(DType::kF64);
  const Term cosine = cos(angle).cast(x.dtype()), sine = (sin(angle) * sign).cast(x.dtype());
  const auto part = [&](int64_t i) {
    const Term line = x.sliced(-1, i, i + 1).squeezed(-1);
    return line.rank() == 1 ? line.unsqueezed(0) : line;
  };
  Term real = matmul(part(0), cosine), imaginary = matmul(part(0), sine);
  if (x.dim(-1) == Dim(2)) {
    real = real - matmul(part(1), sine);
    imaginary = imaginary + matmul(part(1), cosine);
  }
  Shape result(x.shape().begin(), x.shape().end() - 1);
  result.push_back(2);
  return concatenated({real.unsqueezed(-1), imaginary.unsqueezed(-1)}, -1).reshaped(result);
}

}  // namespace

Term fourier(const Term& x, bool inverse) {
  if (!x.dim(-2).is_constant()) {
    const Term y = by_computed_matrix(x, inverse ? 1 : -1);
    return inverse ? y / Term::dimensions(x.node(), {x.dim(-2)}).cast(x.dtype()) : y;
  }
  const double n = static_cast<double>(x.dim(-2).value());
  const Term y = transform(x, inverse ? 1 : -1);
  return inverse ? y * (1 / n) : y;
}

}  // namespace gantry
