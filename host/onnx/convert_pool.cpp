// Poolings.
#include <cmath>

#include "host/onnx/converters.h"
#include "host/onnx/term.h"
#include "host/onnx/window.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/pool.h"
#include "host/ops/reduce.h"
#include "host/ops/scatter.h"

namespace gantry {
namespace {

/// Row-major positions among all elements as those where the first spatial axis varies fastest (storage_order 1).
Term column_major(const Term& positions, const Shape& data) {
  NodeImport& n = positions.node();
  const auto extent = [&](const Dim& d) { return Term::range(n, 1, d).reshaped({}); };
  const auto axes = data.size();
  Term rest = positions, result = Term::number(n, DType::kI64, 0);
  Dim stride = element_count({data.begin() + 2, data.end()});
  const Term plane = extent(stride);
  // Of the last axis first, whose elements then lie furthest apart.
  for (size_t d = axes; d-- > 2;) {
    stride = floordiv(stride, data[d]);
    const Term quotient = rest / extent(data[d]);
    result = result + (rest - quotient * extent(data[d])) * extent(stride);
    rest = quotient;
  }
  return rest * plane + result;
}

void convert_max_pool(NodeImport& n) {
  const auto attrs = read_pool(n, n.type(0));
  n.set(0, n.add(nn::max_pool, {n.input(0)}, attrs));
  if (!n.wants(1)) return;
  const Term positions(n, n.add(nn::max_positions, {n.input(0)}, attrs));
  n.set(1, n.integer("storage_order", 0) == 0 ? positions : column_major(positions, n.type(0).shape));
}

/// com.microsoft's, whose data are of bytes and have their channels last.
void convert_nhwc_max_pool(NodeImport& n) {
  Value* x = channels_first(n, n.input(0));
  n.set(0, channels_last(n, n.add(nn::max_pool, {x}, read_pool(n, x->type))));
}

/// Zeros, and the elements where MaxPool found them; outputs of another size than the windows make keep them at the
/// beginning of each axis.
void convert_max_unpool(NodeImport& n) {
  const Term x = Term::input(n, 0);
  const Window window = read_window(n, n.integer_list("kernel_shape"), n.type(0));
  const size_t axes = window.kernel.size();
  if (x.rank() != static_cast<int>(axes) + 2) n.fail("its data {} do not fit its kernel_shape", n.type(0).str());
  Shape shape{x.dim(0), x.dim(1)};
  for (size_t i = 0; i < axes; ++i) {
    const Dim padding = window.padding[i] + window.padding[axes + i];
    shape.push_back((x.shape()[2 + i] - 1) * window.strides[i] + window.kernel[i] - padding);
  }
  auto attrs = std::make_shared<ScatterAttrs>();
  const Dim count = element_count(x.shape());
  const Term empty = Term::filled(n, x.dtype(), 0, {element_count(shape)});
  const Term positions = Term::input(n, 1).reshaped({count});
  const Term flat(n, n.add(op::scatter_elements, {empty, positions, x.reshaped({count})}, attrs));
  Term y = flat.reshaped(shape);
  if (n.has(2)) {
    const Shape wanted = n.dims(2, "output_shape");
    if (wanted.size() != shape.size()) n.fail("its output_shape should have {} entries", shape.size());
    auto pad = std::make_shared<PadAttrs>();
    for (size_t i = 0; i < shape.size(); ++i) {
      y = y.sliced(static_cast<int64_t>(i), 0, min(shape[i], wanted[i]));
      pad->before.push_back(0);
      pad->after.push_back(wanted[i] - min(shape[i], wanted[i]));
    }
    y = Term(n, n.add(op::pad, {y}, pad));
  }
  n.set(0, y);
}

void convert_average_pool(NodeImport& n) {
  auto attrs = read_pool(n, n.type(0));
  attrs->count_include_pad = n.integer("count_include_pad", 0) != 0;
  n.set(0, n.add(nn::avg_pool, {n.input(0)}, attrs));
}

/// The p of a norm; an integer from operator set 2 on, before that a float of which whole numbers are taken.
int64_t read_p(NodeImport& n) {
  const double p = n.opset() < 2 ? n.number("p", 2) : static_cast<double>(n.integer("p", 2));
  if (!(p >= 1 && p < 1e6)) n.fail("p is {}", p);
  if (p != std::floor(p)) n.unsupported(UnsupportedKind::kAttribute, "p {}", p);
  return static_cast<int64_t>(p);
}

void convert_lp_pool(NodeImport& n) {
  auto attrs = read_pool(n, n.type(0));
  attrs->p = read_p(n);
  n.set(0, n.add(nn::lp_pool, {n.input(0)}, attrs));
}

std::shared_ptr<ReduceAttrs> spatial_axes(NodeImport& n) {
  auto attrs = std::make_shared<ReduceAttrs>();
  for (int64_t axis = 2; axis < n.rank(0); ++axis) attrs->axes.push_back(axis);
  return attrs;
}
void convert_global_average_pool(NodeImport& n) {
  n.set(0, n.add(op::mean, {n.input(0)}, spatial_axes(n)));
}
void convert_global_max_pool(NodeImport& n) {
  n.set(0, n.add(op::max, {n.input(0)}, spatial_axes(n)));
}

void convert_global_lp_pool(NodeImport& n) {
  const int64_t p = read_p(n);
  Value* x = n.add(op::abs, {n.input(0)});
  DType dtype = x->type.dtype;
  Value* powered = p == 1 ? x : n.add(op::power, {x, n.scalar(dtype, static_cast<double>(p))});
  Value* total = n.add(op::sum, {powered}, spatial_axes(n));
  n.set(0, p == 1 ? total : n.add(op::power, {total, n.scalar(dtype, 1.0 / static_cast<double>(p))}));
}

}  // namespace

void add_pool_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"MaxPool", 1, convert_max_pool},
      {"NhwcMaxPool", 1, convert_nhwc_max_pool, kMicrosoft},
      {"MaxUnpool", 9, convert_max_unpool},
      {"AveragePool", 1, convert_average_pool},
      {"LpPool", 1, convert_lp_pool},
      {"GlobalAveragePool", 1, convert_global_average_pool},
      {"GlobalMaxPool", 1, convert_global_max_pool},
      {"GlobalLpPool", 1, convert_global_lp_pool},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
