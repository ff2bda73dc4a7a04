// topk on a GPU: bitonic sorting networks (Batcher, "Sorting networks and their applications", 1968).
#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "host/ops/sort.h"

namespace gantry {
namespace {

/// Pairs that a block sorts in shared memory, at most 48 KiB with their positions.
constexpr int64_t kSharedBytes = 32 << 10;
constexpr int64_t kPositionBytes = 4;
constexpr int64_t kMaxThreads = 512;
/// The position of places that hold no element; they come last.
constexpr int64_t kNone = std::numeric_limits<int32_t>::max();

std::optional<int64_t> known(const Expr& e) {
  const auto* imm = e.as<IntImmNode>();
  return imm ? std::optional(imm->value) : std::nullopt;
}
int64_t power_of_two_from(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 2))));
}
int64_t log_of(int64_t power) {
  return std::bit_width(static_cast<uint64_t>(power)) - 1;
}
int64_t shared_pairs(DType dtype) {
  return static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(kSharedBytes / (byte_width(dtype) + kPositionBytes))));
}

Expr none() {
  return int_imm(DType::kI32, kNone);
}
Expr shift_left(Expr a, Expr by) {
  return binary(BinaryOp::kShl, std::move(a), std::move(by));
}
Expr bits_of(Expr a, Expr mask) {
  return binary(BinaryOp::kAnd, std::move(a), std::move(mask));
}

/// `size` places (a power of two) with a value and a position each, from element `base` of two buffers.
class Places {
 public:
  Places(const TopKLoops& loops, LoopBuilder& b, Buffer values, Buffer positions)
      : loops_(loops), b_(b), values_(std::move(values)), positions_(std::move(positions)) {}

  /// The row's element t, or nothing where the row has ended.
  void fill(const Expr& place, const Expr& row, const Expr& t) const {
    const Expr inside = lt(t, loops_.extent);
    Expr element = load(b_.input(0), loops_.place(row, t, loops_.extent));
    b_.emit(store(values_, place, if_then_else(inside, element, const_of(loops_.dtype, 0))));
    b_.emit(store(positions_, place, select(inside, cast(DType::kI32, t), none())));
  }

  /// Step `step` of stage `stage` of the network for pair number `pair`: in stage s, runs of 2^(s+1) places
  /// become sorted, every other one backwards, by comparing places 2^s apart, then 2^(s-1), and so on.
  void compare(const Expr& base, const Expr& stage, const Expr& step, const Expr& pair) const {
    b_.let("distance_bits", stage - step, [&](const Expr& bits) {
      const Expr distance = shift_left(Expr(1), bits);
      Expr first = shift_left(binary(BinaryOp::kShr, pair, bits), bits + 1) + bits_of(pair, distance - 1);
      b_.let("first", first, [&](const Expr& low) {
        const Expr backwards = ne(bits_of(low, shift_left(Expr(2), stage)), Expr(0));
        b_.let("p", base + low + select(backwards, Expr(0), distance), [&](const Expr& p) {
          b_.let("q", base + low + select(backwards, distance, Expr(0)),
                 [&](const Expr& q) { exchange(p, q); });
        });
      });
    });
  }

  void write(const Expr& place, const Expr& row, const Expr& t) const {
    const Expr to = loops_.place(row, t, loops_.k);
    b_.emit(store(b_.result(0), to, load(values_, place)));
    b_.emit(store(b_.result(1), to, cast(DType::kI64, load(positions_, place))));
  }

 private:
  /// Swaps what stands at p and q if it is at p that should come first.
  void exchange(const Expr& p, const Expr& q) const {
    b_.let("value_p", load(values_, p), [&](const Expr& x) {
      b_.let("value_q", load(values_, q), [&](const Expr& y) {
        b_.let("position_p", load(positions_, p), [&](const Expr& i) {
          b_.let("position_q", load(positions_, q), [&](const Expr& j) {
            b_.when(ne(i, none()) && (eq(j, none()) || loops_.before(x, i, y, j)), [&] {
              b_.emit(store(values_, p, y));
              b_.emit(store(values_, q, x));
              b_.emit(store(positions_, p, j));
              b_.emit(store(positions_, q, i));
            });
          });
        });
      });
    });
  }

  const TopKLoops& loops_;
  LoopBuilder& b_;
  Buffer values_, positions_;
};

/// One block's share of a row, in shared memory.
class BlockSort {
 public:
  BlockSort(const TopKLoops& loops, LoopBuilder& b, int64_t size, Expr row, Expr thread)
      : b_(b),
        size_(size),
        threads_(threads_for(size)),
        row_(std::move(row)),
        thread_(std::move(thread)),
        places_(loops, b, b.shared("values", loops.dtype, size), b.shared("positions", DType::kI32, size)) {}

  static int64_t threads_for(int64_t size) { return std::clamp<int64_t>(size / 2, 32, kMaxThreads); }

  /// Places from `begin` on get the row's elements from `first` on.
  void fill(int64_t begin, const Expr& first) {
    each(size_ - begin, [&](const Expr& i) { places_.fill(begin + i, row_, first + i); });
    b_.emit(barrier());
  }
  void sort() {
    b_.loop("stage", log_of(size_), [&](const Expr& stage) {
      b_.loop("step", stage + 1, [&](const Expr& step) {
        each(size_ / 2, [&](const Expr& pair) { places_.compare(0, stage, step, pair); });
        b_.emit(barrier());
      });
    });
  }
  void write(const Expr& k) {
    each(k, [&](const Expr& i) { places_.write(i, row_, i); });
  }

 private:
  /// Deals 0 to count - 1 out to the threads.
  void each(const Expr& count, const std::function<void(Expr)>& body) {
    b_.loop("round", floordiv(count + (threads_ - 1), threads_), [&](const Expr& round) {
      b_.let("i", round * threads_ + thread_,
             [&](const Expr& i) { b_.when(lt(i, count), [&] { body(i); }); });
    });
  }

  LoopBuilder& b_;
  int64_t size_, threads_;
  Expr row_, thread_;
  Places places_;
};

enum class Form {
  kNone,
  kBlock,      ///< a block sorts its row
  kSelection,  ///< a block keeps the best k beside one chunk of its row after another
  kNetwork,    ///< rows lie in scratch; a launch a step of the network
};

Form form_of(const TopKLoops& loops) {
  const auto extent = known(loops.extent), k = loops.k_limit;
  const int64_t pairs = shared_pairs(loops.dtype);
  if (extent && *extent > kNone / 2) return Form::kNone;
  if (extent && *extent <= pairs) return Form::kBlock;
  if (k && *k <= pairs / 4) return Form::kSelection;
  return extent ? Form::kNetwork : Form::kNone;
}

void sort_in_blocks(const TopKLoops& loops, LoopBuilder& b) {
  const int64_t size = power_of_two_from(*known(loops.extent));
  b.launch({loops.rows()}, BlockSort::threads_for(size), [&](const auto& block, const Expr& thread) {
    BlockSort sort(loops, b, size, block[0], thread);
    sort.fill(0, 0);
    sort.sort();
    sort.write(loops.k);
  });
}

void select_in_blocks(const TopKLoops& loops, LoopBuilder& b) {
  const int64_t size = shared_pairs(loops.dtype), kept = power_of_two_from(*loops.k_limit);
  const int64_t fresh = size - kept;
  b.launch({loops.rows()}, BlockSort::threads_for(size), [&](const auto& block, const Expr& thread) {
    BlockSort sort(loops, b, size, block[0], thread);
    sort.fill(0, 0);
    sort.sort();
    const Expr chunks = max(Expr(0), floordiv(loops.extent - size + (fresh - 1), Expr(fresh)));
    b.loop("chunk", chunks, [&](const Expr& chunk) {
      sort.fill(kept, size + chunk * fresh);
      sort.sort();
    });
    sort.write(loops.k);
  });
}

void sort_by_network(const TopKLoops& loops, LoopBuilder& b) {
  const int64_t size = power_of_two_from(*known(loops.extent)), stages = log_of(size);
  Places places(loops, b, b.scratch("values", loops.dtype, loops.rows() * size),
                b.scratch("positions", DType::kI32, loops.rows() * size));
  b.launch_flat(loops.rows() * size,
                [&](const Expr& i) { places.fill(i, floordiv(i, size), mod(i, Expr(size))); });
  // Steps are counted through: stage s has s + 1 of them, after s (s + 1) / 2 of earlier stages.
  b.loop("step", stages * (stages + 1) / 2, [&](const Expr& step) {
    b.launch_flat(loops.rows() * (size / 2), [&](const Expr& i) {
      Expr before = 0;
      for (int64_t s = 1; s < stages; ++s)
        before = before + select(ge(step, Expr(s * (s + 1) / 2)), Expr(1), Expr(0));
      b.let("stage", before, [&](const Expr& stage) {
        b.let("stage_step", step - floordiv(stage * (stage + 1), 2), [&](const Expr& stage_step) {
          places.compare(floordiv(i, size / 2) * size, stage, stage_step, mod(i, Expr(size / 2)));
        });
      });
    });
  });
  b.launch_flat(loops.rows() * loops.k, [&](const Expr& i) {
    const Expr row = floordiv(i, loops.k), t = mod(i, loops.k);
    places.write(row * size + t, row, t);
  });
}

}  // namespace

bool TopKLoops::has_launches() const {
  return form_of(*this) != Form::kNone;
}

void TopKLoops::build_launches(LoopBuilder& b) const {
  switch (form_of(*this)) {
    case Form::kBlock:
      return sort_in_blocks(*this, b);
    case Form::kSelection:
      return select_in_blocks(*this, b);
    default:
      return sort_by_network(*this, b);
  }
}

}  // namespace gantry
