// cumsum, cumprod: sums and products along an axis up to each position.
#include <functional>
#include <optional>
#include <utility>

#include "host/graph/shape_guess.h"
#include "host/loops/stmt.h"
#include "host/ops/families.h"
#include "host/ops/reduce.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

/// A scan of `rows` = outer * inner rows of `extent` elements each, `inner` elements apart.
struct Scan {
  CumsumAttrs attrs;
  bool multiplies = false;
  Expr outer = 1, inner = 1, extent;
  DType dtype = DType::kF32;

  Expr rows() const { return outer * inner; }
  /// Where step t of a row's scan stands.
  Expr place(const Expr& row, const Expr& t) const {
    Expr position = attrs.reverse ? extent - 1 - t : t;
    return (floordiv(row, inner) * extent + position) * inner + mod(row, inner);
  }
  /// What step t adds to its row's sum (or product), in the type that sums have.
  Expr operand(const Buffer& source, const Expr& row, const Expr& t) const {
    if (!attrs.exclusive) return ops::widen(load(source, place(row, t)));
    return if_then_else(gt(t, 0), ops::widen(load(source, place(row, t - 1))), neutral());
  }
  Expr neutral() const { return const_of(ops::widened(dtype), multiplies ? 1 : 0); }
  Expr combined(const Expr& a, const Expr& b) const { return multiplies ? a * b : a + b; }
};

Scan scan_of(const Node& node, const Tensor& x) {
  Scan scan;
  scan.attrs = node.attrs_as<CumsumAttrs>();
  scan.extent = x.shape()[static_cast<size_t>(scan.attrs.axis)];
  for (int64_t d = 0; d < x.rank(); ++d) {
    const Expr& n = x.shape()[static_cast<size_t>(d)];
    if (d < scan.attrs.axis) scan.outer = scan.outer * n;
    if (d > scan.attrs.axis) scan.inner = scan.inner * n;
  }
  scan.multiplies = node.is(op::cumprod);
  scan.dtype = x.dtype();
  return scan;
}

using Place = std::function<Expr(const Expr& row, const Expr& t)>;

/// The scans of `count` rows side by side, from `first` on: one would wait for its own sum.
void scan_together(LoopBuilder& b, const Scan& scan, const Place& place, const Expr& first, int64_t count,
                   LoopKind kind) {
  const Buffer sums = b.local("sums", ops::widened(scan.dtype), count);
  auto each = [&](const std::function<void(const Expr& k)>& body) { b.loop("k", count, body, kind); };
  each([&](const Expr& k) { b.emit(store(sums, k, scan.neutral())); });
  b.loop("t", scan.extent, [&](const Expr& t) {
    each([&](const Expr& k) {
      const Expr at = place(first + k, t);
      const Stmt add = store(sums, k, scan.combined(load(sums, k), ops::widen(load(b.input(0), at))));
      const Stmt put = store(b.result(0), at, cast(scan.dtype, load(sums, k)));
      b.emit(scan.attrs.exclusive ? block({put, add}) : block({add, put}));
    });
  });
}

/// `count` rows, `together` at once in loops of kind `each`; `over`: that of the loops over them.
void scan_rows(LoopBuilder& b, const Scan& scan, const Place& place, const Expr& count, int64_t together,
               LoopKind each, LoopKind over) {
  const Expr blocks = floordiv(count, together), done = blocks * together;
  b.loop(
      "block", blocks, [&](const Expr& i) { scan_together(b, scan, place, i * together, together, each); },
      over);
  b.loop(
      "row", count - done, [&](const Expr& i) { scan_together(b, scan, place, done + i, 1, each); }, over);
}

/// Rows that lie one after the other are scanned a few at a time; where they are interleaved, as many as a
/// vector has lanes. The outermost loop of more than one iteration is parallel.
void scan_on_cpu(LoopBuilder& b, const Scan& scan) {
  constexpr int64_t kRows = 4, kLanes = 16;
  auto position = [&](const Expr& t) { return scan.attrs.reverse ? scan.extent - 1 - t : t; };
  auto is_one = [](const Expr& e) { return e.as<IntImmNode>() && e.as<IntImmNode>()->value == 1; };
  if (is_one(scan.inner)) {
    auto place = [&](const Expr& row, const Expr& t) { return row * scan.extent + position(t); };
    return scan_rows(b, scan, place, scan.outer, kRows, LoopKind::kUnrolled, LoopKind::kParallel);
  }
  const bool single = is_one(scan.outer);
  auto one = [&](const Expr& o) {
    auto place = [&](const Expr& i, const Expr& t) {
      return (o * scan.extent + position(t)) * scan.inner + i;
    };
    scan_rows(b, scan, place, scan.inner, kLanes, LoopKind::kVectorized,
              single ? LoopKind::kParallel : LoopKind::kSerial);
  };
  if (single) return one(0);
  b.loop("outer", scan.outer, one, LoopKind::kParallel);
}

// --- GPU

/// A thread a row: neighbouring threads read neighbouring elements where inner > 1.
void scan_by_threads(LoopBuilder& b, const Scan& scan) {
  b.launch_flat(scan.rows(), [&](const Expr& row) {
    Buffer sum = b.local("sum", ops::widened(scan.dtype), 1);
    b.emit(store(sum, 0, scan.neutral()));
    b.loop("t", scan.extent, [&](const Expr& t) {
      b.emit(store(sum, 0, scan.combined(load(sum, 0), scan.operand(b.input(0), row, t))));
      b.emit(store(b.result(0), scan.place(row, t), cast(scan.dtype, load(sum, 0))));
    });
  });
}

/// A block a row, in chunks of kItems elements a thread: threads sum their own, then the sums are scanned in
/// shared memory by doubling distances (Hillis and Steele, "Data parallel algorithms", 1986), from one half
/// of the buffer into the other.
void scan_by_blocks(LoopBuilder& b, const Scan& scan) {
  constexpr int64_t kThreads = 256, kItems = 4, kChunk = kThreads * kItems;
  const DType dtype = ops::widened(scan.dtype);
  b.launch({scan.rows()}, kThreads, [&](const auto& block, const Expr& thread) {
    Buffer sums = b.shared("sums", dtype, 2 * kThreads);
    Buffer items = b.local("items", dtype, kItems), carry = b.local("carry", dtype, 1);
    b.emit(store(carry, 0, scan.neutral()));
    b.loop("chunk", floordiv(scan.extent + (kChunk - 1), kChunk), [&](const Expr& chunk) {
      const Expr first = chunk * kChunk + thread * kItems;
      for (int64_t q = 0; q < kItems; ++q) {
        Expr own = if_then_else(lt(first + q, scan.extent), scan.operand(b.input(0), block[0], first + q),
                                scan.neutral());
        b.emit(store(items, q, q == 0 ? own : scan.combined(load(items, q - 1), own)));
      }
      b.emit(store(sums, thread, load(items, kItems - 1)));
      b.emit(barrier());
      int64_t from = 0, to = kThreads;
      for (int64_t distance = 1; distance < kThreads; distance *= 2, std::swap(from, to)) {
        Expr far = if_then_else(ge(thread, distance), load(sums, thread + (from - distance)), scan.neutral());
        b.emit(store(sums, thread + to, scan.combined(load(sums, thread + from), far)));
        b.emit(barrier());
      }
      Expr others = if_then_else(gt(thread, 0), load(sums, thread + (from - 1)), scan.neutral());
      for (int64_t q = 0; q < kItems; ++q) {
        b.when(lt(first + q, scan.extent), [&] {
          Expr total = scan.combined(scan.combined(load(carry, 0), others), load(items, q));
          b.emit(store(b.result(0), scan.place(block[0], first + q), cast(scan.dtype, total)));
        });
      }
      b.emit(store(carry, 0, scan.combined(load(carry, 0), load(sums, from + (kThreads - 1)))));
      b.emit(barrier());  // before the next chunk's sums
    });
  });
}

void scan_on_gpu(LoopBuilder& b, const Scan& scan) {
  constexpr int64_t kManyRows = 4096, kFewSteps = 32;
  auto constant = [](const Expr& e) {
    const auto* imm = e.as<IntImmNode>();
    return imm ? std::optional(imm->value) : std::nullopt;
  };
  const bool contiguous = constant(scan.inner) == 1;
  const bool many_rows = constant(scan.rows()).value_or(0) >= kManyRows && !contiguous;
  if (many_rows || constant(scan.extent).value_or(guess::kLong) <= kFewSteps)
    scan_by_threads(b, scan);
  else
    scan_by_blocks(b, scan);
}

std::vector<Tensor> compute_scan(const Node& node, const std::vector<Tensor>& in) {
  const Scan scan = scan_of(node, in[0]);
  auto on_cpu = [scan](LoopBuilder& b) { scan_on_cpu(b, scan); };
  auto on_gpu = [scan](LoopBuilder& b) { scan_on_gpu(b, scan); };
  return extern_kernel({in[0]}, {in[0].shape()}, {scan.dtype}, on_cpu, node.op->name, on_gpu);
}

void add_scan(OpSet& set, const Op<CumsumAttrs>& op) {
  OpDef scan = ops::define(op, FusionClass::kOpaque, LayoutBehaviour::kAxisRemap, {"data"});
  scan.infer = [](const Node& node, Function&) {
    const TensorType& x = ops::input_type(node, 0);
    ops::require_dtype(x.dtype != DType::kBool && x.dtype != DType::kString, x.dtype);
    ops::require_axis(node.attrs_as<CumsumAttrs>().axis, x.rank());
    return std::vector<TensorType>{x};
  };
  scan.compute = compute_scan;
  scan.remap_axes = ops::axis_remapper<CumsumAttrs>();
  set.add(std::move(scan));
}

}  // namespace

void add_cumsum_ops(OpSet& set) {
  add_scan(set, op::cumsum);
  add_scan(set, op::cumprod);
}

}  // namespace gantry
