#include "host/onnx/window.h"

#include <limits>

namespace gantry {
namespace {

constexpr int64_t kLargest = 1 << 20;  // keeps products of extents, dilations and paddings small

/// Padding that makes ceil(extent / stride) windows, split with the odd one at the end (or begin).
std::pair<Dim, Dim> same_padding(const Dim& extent, int64_t kernel, int64_t stride, int64_t dilation,
                                 bool odd_at_end) {
  int64_t reach = (kernel - 1) * dilation + 1;
  Dim total = stride == 1 ? Dim(reach - 1) : max((ceildiv(extent, stride) - 1) * stride + reach - extent, 0);
  Dim small = floordiv(total, 2);
  return odd_at_end ? std::pair{small, total - small} : std::pair{total - small, small};
}

}  // namespace

void check_padding(NodeImport& n, const Shape& padding, size_t count) {
  if (padding.size() != 2 * count) n.fail("its pads should have {} entries, not {}", 2 * count, padding.size());
  for (const Dim& p : padding) {
    if (p.is_constant() && (p.value() < -kLargest || p.value() > kLargest))
      n.fail("a padding of {} makes no sense", p.value());
  }
}

Window read_window(NodeImport& n, std::vector<int64_t> kernel, const TensorType& type) {
  Window w;
  const Shape& data = type.shape;
  if (data.size() < 3) n.fail("its data {} has no spatial axes", type.str());
  size_t count = data.size() - 2;
  if (kernel.size() != count)
    n.fail("a kernel of {} dimensions does not fit the data {}", kernel.size(), type.str());
  w.kernel = std::move(kernel);
  w.strides = n.integer_list("strides", count, 1);
  w.dilations = n.integer_list("dilations", count, 1);
  // A stride may be beyond all of the data: there is one window then.
  constexpr int64_t kLargestStride = std::numeric_limits<int32_t>::max();
  for (size_t i = 0; i < count; ++i) {
    for (int64_t v : {w.kernel[i], w.dilations[i]}) {
      if (v < 1 || v > kLargest) n.fail("a kernel extent or dilation of {} makes no sense", v);
    }
    if (w.strides[i] < 1 || w.strides[i] > kLargestStride) n.fail("a stride of {} makes no sense", w.strides[i]);
  }
  std::vector<int64_t> pads = n.integer_list("pads", 2 * count, 0);
  w.padding.assign(pads.begin(), pads.end());
  check_padding(n, w.padding, count);
  std::string mode = n.text("auto_pad", "NOTSET");
  if (mode == "NOTSET") return w;
  if (mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    n.fail("its auto_pad is unknown: '{}'", mode);
  for (size_t i = 0; i < count; ++i) {
    std::pair<Dim, Dim> p{0, 0};
    if (mode != "VALID")
      p = same_padding(data[2 + i], w.kernel[i], w.strides[i], w.dilations[i], mode == "SAME_UPPER");
    w.padding[i] = p.first;
    w.padding[count + i] = p.second;
  }
  return w;
}

std::shared_ptr<PoolAttrs> read_pool(NodeImport& n, const TensorType& data) {
  Window window = read_window(n, n.integer_list("kernel_shape"), data);
  auto attrs = std::make_shared<PoolAttrs>();
  set_window(*attrs, window);
  bool automatic = n.text("auto_pad", "NOTSET") != "NOTSET";
  attrs->ceil_mode = n.integer("ceil_mode", 0) != 0 && !automatic;
  return attrs;
}

Value* channels_first(NodeImport& n, Value* x) {
  const int64_t rank = x->type.rank();
  if (rank < 3) n.fail("its data {} has no spatial axes", x->type.str());
  std::vector<int64_t> axes{0, rank - 1};
  for (int64_t axis = 1; axis < rank - 1; ++axis) axes.push_back(axis);
  return n.transpose(x, axes);
}

Value* channels_last(NodeImport& n, Value* x) {
  const int64_t rank = x->type.rank();
  std::vector<int64_t> axes{0};
  for (int64_t axis = 2; axis < rank; ++axis) axes.push_back(axis);
  axes.push_back(1);
  return n.transpose(x, axes);
}

}  // namespace gantry
