// Poolings.
#include "host/onnx/converters.h"
#include "host/onnx/window.h"
#include "host/ops/elementwise.h"
#include "host/ops/pool.h"
#include "host/ops/reduce.h"

namespace gantry {
namespace {

std::shared_ptr<PoolAttrs> pool_attrs(NodeImport& n) {
  Window window = read_window(n, n.integer_list("kernel_shape"));
  auto attrs = std::make_shared<PoolAttrs>();
  attrs->kernel = window.kernel;
  attrs->strides = window.strides;
  attrs->dilations = window.dilations;
  attrs->padding = window.padding;
  bool automatic = n.text("auto_pad", "NOTSET") != "NOTSET";
  attrs->ceil_mode = n.integer("ceil_mode", 0) != 0 && !automatic;
  return attrs;
}

void convert_max_pool(NodeImport& n) {
  n.set(0, n.add(nn::max_pool, {n.input(0)}, pool_attrs(n)));
}

void convert_average_pool(NodeImport& n) {
  auto attrs = pool_attrs(n);
  attrs->count_include_pad = n.integer("count_include_pad", 0) != 0;
  n.set(0, n.add(nn::avg_pool, {n.input(0)}, attrs));
}

void convert_lp_pool(NodeImport& n) {
  auto attrs = pool_attrs(n);
  attrs->p = n.integer("p", 2);
  if (attrs->p < 1) n.fail("p is {}", attrs->p);
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
  int64_t p = n.integer("p", 2);
  if (p < 1) n.fail("p is {}", p);
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
      {"AveragePool", 1, convert_average_pool},
      {"LpPool", 2, convert_lp_pool},
      {"GlobalAveragePool", 1, convert_global_average_pool},
      {"GlobalMaxPool", 1, convert_global_max_pool},
      {"GlobalLpPool", 2, convert_global_lp_pool},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
