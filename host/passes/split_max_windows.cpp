// The maximum over a window is that of the maxima of its lines: pooling along the last axis, then along the
// others, takes k + k elements instead of k * k.
//
//   nn.max_pool(%x, kernel=[13, 13])  =>  nn.max_pool(nn.max_pool(%x, kernel=[1, 13]), kernel=[13, 1])
#include "host/ops/op.h"
#include "host/ops/pool.h"
#include "host/passes/canonicalize.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

/// Elements of the data that a result reads, where it is worth two passes.
bool pays(const PoolAttrs& attrs) {
  // To store and load the lines' maxima, as elements; and what two passes must save to be worth it.
  constexpr double kPass = 4, kLeast = 1.5;
  double others = 1, lines = 1;
  for (size_t i = 0; i + 1 < attrs.kernel.size(); ++i) {
    others *= double(attrs.kernel[i]);
    lines *= double(attrs.strides[i]);
  }
  const auto along = double(attrs.kernel.back());
  return others > 1 && (along + kPass) * lines + others <= others * along / kLeast;
}

/// `attrs` along the axes of which `kept` is true alone.
template <typename Kept>
std::shared_ptr<PoolAttrs> along(const PoolAttrs& attrs, const Kept& kept) {
  auto part = std::make_shared<PoolAttrs>(attrs);
  const size_t rank = attrs.kernel.size();
  for (size_t i = 0; i < rank; ++i) {
    if (kept(i)) continue;
    part->kernel[i] = part->strides[i] = part->dilations[i] = 1;
    part->padding[i] = part->padding[rank + i] = Dim(0);
  }
  return part;
}

}  // namespace

void split_max_windows(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  for (Node* node : rewriter.nodes()) {
    const auto* attrs = node->match(nn::max_pool);
    if (attrs == nullptr || attrs->channels_last || !pays(*attrs)) continue;
    const size_t last = attrs->kernel.size() - 1;
    auto pool = [&](std::shared_ptr<const PoolAttrs> part, Value* x) {
      return rewriter.before(*node)(nn::max_pool, {x}, std::move(part));
    };
    Value* lines = pool(along(*attrs, [&](size_t i) { return i == last; }), node->inputs[0]);
    rewriter.replace(node->result(), pool(along(*attrs, [&](size_t i) { return i != last; }), lines));
  }
}

extern const Pass split_max_windows_pass{
    .name = "split_max_windows",
    .purpose = "maxima over large windows are taken along one axis, then along the others",
    .run = split_max_windows,
};

}  // namespace gantry
