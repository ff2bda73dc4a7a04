// topk: declaration and the loop nest for CPUs; the one for GPUs is in sort_launches.cpp.
#include "host/ops/sort.h"

#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

constexpr int64_t kMaxLevels = 40;  ///< of a heap whose size is not known

std::vector<TensorType> infer_topk(const Node& node, Function&) {
  const auto& attrs = node.attrs_as<TopKAttrs>();
  const TensorType& x = ops::input_type(node, 0);
  ops::require_dtype(x.dtype != DType::kBool && x.dtype != DType::kString, x.dtype);
  ops::require_axis(attrs.axis, x.rank());
  const Dim& extent = x.shape[static_cast<size_t>(attrs.axis)];
  const auto least = (extent - attrs.k).lower_bound();
  ops::require(!attrs.k.is_constant() || attrs.k.value() >= 0, "k is {}", attrs.k.str());
  ops::require(!(extent - attrs.k).is_constant() || *least >= 0,
               "k is {}, but axis {} of {} has fewer elements", attrs.k.str(), attrs.axis, x.str());
  Shape shape = x.shape;
  // Where the axis may turn out to be shorter than k, there are fewer results.
  shape[static_cast<size_t>(attrs.axis)] = least && *least >= 0 ? attrs.k : min(attrs.k, extent);
  return {{x.dtype, shape}, {DType::kI64, shape}};
}

TopKLoops loops_of(const Node& node, const Tensor& x) {
  const auto& attrs = node.attrs_as<TopKAttrs>();
  const auto axis = static_cast<size_t>(attrs.axis);
  TopKLoops loops;
  loops.largest = attrs.largest;
  loops.dtype = x.dtype();
  for (size_t d = 0; d < x.shape().size(); ++d) {
    if (d < axis) loops.outer = loops.outer * x.shape()[d];
    if (d > axis) loops.inner = loops.inner * x.shape()[d];
  }
  loops.extent = x.shape()[axis];
  loops.k_limit = attrs.k.constant();
  loops.k = Expr(node.result()->type.shape[axis]);
  return loops;
}

std::vector<Tensor> compute_topk(const Node& node, const std::vector<Tensor>& in) {
  const TopKLoops loops = loops_of(node, in[0]);
  std::vector<Expr> shape = ops::result_shape(node);
  std::function<void(LoopBuilder&)> on_gpu;
  if (loops.has_launches()) on_gpu = [loops](LoopBuilder& b) { loops.build_launches(b); };
  return extern_kernel(
      {in[0]}, {shape, shape}, {in[0].dtype(), DType::kI64}, [loops](LoopBuilder& b) { loops.build(b); },
      "topk", on_gpu);
}

/// One row. Its heap, with the last in order at the root, lies in the results: first of the row's first k
/// elements; every later element that comes before the root takes its place. Taking the roots out from the
/// last place to the first then sorts it. Most elements come after the root: blocks that have none before it
/// are passed over.
class Heap {
 public:
  Heap(const TopKLoops& loops, LoopBuilder& b, Expr row)
      : loops_(loops), b_(b), row_(std::move(row)), hole_(b.local("hole", DType::kI64, 1)) {
    const auto* k = loops.k.as<IntImmNode>();
    levels_ = k ? 0 : kMaxLevels;
    while (k && (int64_t{1} << levels_) <= k->value) ++levels_;
  }

  void run() {
    const Expr& k = loops_.k;
    b_.loop("t", k, [&](const Expr& t) { put(t, element(t), t); });
    b_.loop("t", floordiv(k, 2), [&](const Expr& t) { sift(floordiv(k, 2) - 1 - t, k); });
    const Expr later = loops_.extent - k;
    const bool contiguous = loops_.inner.as<IntImmNode>() && loops_.inner.as<IntImmNode>()->value == 1;
    const Expr blocks = contiguous ? floordiv(later, kBlock) : Expr(0);
    if (contiguous) {
      b_.loop("block", blocks, [&](const Expr& block) {
        const Expr first = k + block * kBlock;
        b_.when(logical_not(comes_after(first)),
                [&] { b_.loop("t", kBlock, [&](const Expr& t) { offer(first + t); }); });
      });
    }
    b_.loop("t", later - blocks * kBlock, [&](const Expr& t) { offer(k + blocks * kBlock + t); });
    b_.loop("t", k, [&](const Expr& t) {
      b_.let("last", k - 1 - t, [&](const Expr& last) {
        swap(0, last);
        sift(0, last);
      });
    });
  }

 private:
  static constexpr int64_t kBlock = 16;

  /// The element at `t` takes the root's place if it comes before it.
  void offer(const Expr& t) {
    b_.let("element", element(t), [&](const Expr& x) {
      b_.when(loops_.before(x, t, value(0), index(0)), [&] {
        put(0, x, t);
        sift(0, loops_.k);
      });
    });
  }

  /// True only if all elements of the block that begins at `first` come after the root, as those equal to it
  /// do; not where one of them is NaN.
  Expr comes_after(const Expr& first) {
    const Buffer before = b_.local("before", DType::kI32, kBlock);
    auto each = [&](int64_t count, const std::function<Expr(const Expr&)>& element) {
      b_.loop(
          "lane", count, [&](const Expr& i) { b_.emit(store(before, i, element(i))); },
          LoopKind::kVectorized);
    };
    const Expr root = ops::widen(value(0));
    each(kBlock, [&](const Expr& i) {
      const Expr x = ops::widen(element(first + i));
      const Expr after = loops_.largest ? le(x, root) : ge(x, root);
      return select(after, int_imm(DType::kI32, 0), int_imm(DType::kI32, 1));
    });
    for (int64_t half = kBlock / 2; half > 0; half /= 2)
      each(half, [&](const Expr& i) { return max(load(before, i), load(before, i + half)); });
    return eq(load(before, 0), int_imm(DType::kI32, 0));
  }

  Expr element(const Expr& t) const { return load(b_.input(0), loops_.place(row_, t, loops_.extent)); }
  Expr at(const Expr& p) const { return loops_.place(row_, p, loops_.k); }
  Expr value(const Expr& p) const { return load(b_.result(0), at(p)); }
  Expr index(const Expr& p) const { return load(b_.result(1), at(p)); }

  void put(const Expr& p, const Expr& x, const Expr& i) {
    b_.emit(store(b_.result(0), at(p), x));
    b_.emit(store(b_.result(1), at(p), i));
  }
  void swap(const Expr& p, const Expr& q) {
    b_.let("value", value(p), [&](const Expr& x) {
      b_.let("index", index(p), [&](const Expr& i) {
        put(p, value(q), index(q));
        put(q, x, i);
      });
    });
  }

  /// Sinks the element at `root` in a heap of `size`, level by level, until both of its children come before
  /// it.
  void sift(const Expr& root, const Expr& size) {
    b_.emit(store(hole_, 0, root));
    b_.loop("level", levels_, [&](const Expr&) {
      b_.let("parent", load(hole_, 0), [&](const Expr& parent) {
        const Expr left = parent * 2 + 1, right = parent * 2 + 2;
        b_.when(lt(left, size), [&] {
          Expr right_is_later = if_then_else(
              lt(right, size), loops_.before(value(left), index(left), value(right), index(right)),
              int_imm(DType::kBool, 0));
          b_.let("child", select(right_is_later, right, left), [&](const Expr& child) {
            b_.emit(store(hole_, 0, size));  // ends the walk, unless the child sinks further
            b_.when(loops_.before(value(parent), index(parent), value(child), index(child)), [&] {
              swap(parent, child);
              b_.emit(store(hole_, 0, child));
            });
          });
        });
      });
    });
  }

  const TopKLoops& loops_;
  LoopBuilder& b_;
  Expr row_;
  Buffer hole_;
  int64_t levels_ = 0;
};

}  // namespace

Expr TopKLoops::before(const Expr& a, const Expr& i, const Expr& b, const Expr& j) const {
  auto greater = [&](const Expr& x, const Expr& y) {
    if (!is_float(dtype)) return gt(x, y);
    const Expr u = ops::widen(x), v = ops::widen(y);
    return gt(u, v) || (call(MathFn::kIsNan, {u}) && logical_not(call(MathFn::kIsNan, {v})));
  };
  const Expr first = largest ? greater(a, b) : greater(b, a),
             second = largest ? greater(b, a) : greater(a, b);
  return first || (logical_not(second) && lt(i, j));
}

void TopKLoops::build(LoopBuilder& b) const {
  auto one_row = [&](const Expr& row) { b.when(lt(Expr(0), k), [&] { Heap(*this, b, row).run(); }); };
  b.loop("row", rows(), one_row, LoopKind::kParallel);
}

void add_sort_ops(OpSet& set) {
  OpDef topk = ops::define(op::topk, FusionClass::kOpaque, LayoutBehaviour::kNone, {"data"});
  topk.infer = infer_topk;
  topk.compute = compute_topk;
  set.add(std::move(topk));
}

}  // namespace gantry
