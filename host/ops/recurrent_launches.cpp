// Recurrences on a GPU: a launch a step (two where a gate needs another gate's whole vector), parallel over
// directions, sequences and hidden units.
#include "host/ops/recurrent_loops.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using recurrence::f32;
using recurrence::sigmoid;
using recurrence::tanh_of;
using Kind = RecurrenceLoops::Kind;

constexpr int64_t kWarp = 32;

/// Writes the launches. A step reads the state h from one half of a buffer and writes the other, as threads
/// of other blocks still read the old one; the cell c belongs to its thread alone.
class Launches {
 public:
  Launches(const RecurrenceLoops& spec, LoopBuilder& builder)
      : spec_(spec), b_(builder), hidden_(spec.hidden), elements_(spec.rows() * spec.hidden) {
    gates_ = spec.kind == Kind::kLstm ? 4 : spec.kind == Kind::kGru ? 3 : 1;
    while (slices_ < kMaxSlices && hidden_ >= slices_ * 2 * kMinSlice) slices_ *= 2;
    h_ = b_.scratch("h", DType::kF32, elements_ * 2);
  }

  void build() {
    b_.launch_flat(elements_, [&](const Expr& i) {
      b_.emit(store(h_, i, load(input(2), i)));
      if (spec_.kind == Kind::kLstm) b_.emit(store(cell(), i, load(input(3), i)));
    });
    if (spec_.kind == Kind::kGru && !spec_.attrs.linear_before_reset) {
      update_ = b_.scratch("update_gate", DType::kF32, elements_);
      reset_h_ = b_.scratch("reset_h", DType::kF32, elements_);
    }
    b_.loop("step", spec_.steps, [&](const Expr& step) { one_step(step); });
    b_.launch_flat(elements_, [&](const Expr& i) {
      b_.emit(store(b_.result(1), i, load(h_, mod(spec_.steps, 2) * elements_ + i)));
    });
  }

 private:
  static constexpr int64_t kMaxSlices = 16;  ///< warps of a block
  static constexpr int64_t kMinSlice = 16;   ///< products a warp sums for it to be worth its while

  /// One unit of one row (a sequence in one direction) at one step.
  struct Point {
    Expr step, row, unit;
  };
  /// Given the sums of the gates asked for, stores what the point makes of them.
  using Finish = std::function<void(const Point&, const std::vector<Expr>& sums)>;

  bool present(size_t i) const { return i < spec_.input_at.size() && spec_.input_at[i] >= 0; }
  const Buffer& input(size_t i) const { return b_.input(spec_.input_at[i]); }
  const Buffer& cell() const { return b_.result(2); }
  size_t lengths() const { return spec_.kind == Kind::kLstm ? 4 : 3; }

  Expr length(const Expr& row) const {
    if (!present(lengths())) return spec_.steps;
    Expr given = load(input(lengths()), spec_.sequence_of(row));
    return max(Expr(0), min(spec_.steps, cast(DType::kI64, given)));
  }
  Expr element(const Point& p) const { return p.row * hidden_ + p.unit; }
  Expr old_h(const Point& p) const { return load(h_, mod(p.step, 2) * elements_ + element(p)); }
  Expr time(const Point& p) const { return spec_.time_of(p.row, p.step, length(p.row)); }
  Expr projected(const Point& p, int64_t gate) const {
    return load(input(0), spec_.projection_row(p.row, time(p), gates_) + gate * hidden_ + p.unit);
  }

  void keep(const Point& p, const Expr& y_time, const Expr& h, const Expr& y) const {
    b_.emit(store(h_, mod(p.step + 1, 2) * elements_ + element(p), h));
    b_.emit(store(b_.result(0), (y_time * spec_.rows() + p.row) * hidden_ + p.unit, y));
  }

  void one_step(const Expr& step) {
    if (spec_.kind == Kind::kLstm) return lstm_step(step);
    if (spec_.kind == Kind::kRnn) return rnn_step(step);
    if (spec_.attrs.linear_before_reset) return linear_gru_step(step);
    gru_step(step);
  }

  /// A launch over (rows, 32 units): `gates` columns of vector * recurrent for each unit. The warps of a
  /// block share the sum; the first one finishes. Sequences that have ended keep their state and yield 0,
  /// where `last` says that this launch ends the step.
  void products(const Expr& step, const std::vector<int64_t>& gates, const Buffer& vector,
                const Expr& vector_at, bool last, const Finish& finish) {
    const auto count = static_cast<int64_t>(gates.size());
    b_.launch({spec_.rows(), (hidden_ + kWarp - 1) / kWarp}, slices_ * kWarp,
              [&](const auto& block, const Expr& thread) {
                const Expr lane = mod(thread, kWarp), slice = floordiv(thread, kWarp);
                const Point p{step, block[0], block[1] * kWarp + lane};
                const Expr inside = lt(p.unit, Expr(hidden_)), live = lt(step, length(p.row));
                Buffer partial = b_.shared("partial", DType::kF32, slices_ * count * kWarp);
                Buffer sums = b_.local("sums", DType::kF32, count);
                for (int64_t g = 0; g < count; ++g) b_.emit(store(sums, g, f32(0)));
                b_.when(inside && live, [&] {
                  b_.loop("q", (hidden_ + slices_ - 1) / slices_, [&](const Expr& q) {
                    const Expr k = q * slices_ + slice;
                    b_.when(lt(k, Expr(hidden_)), [&] {
                      b_.let("value", load(vector, vector_at + p.row * hidden_ + k), [&](const Expr& value) {
                        for (int64_t g = 0; g < count; ++g) {
                          Expr column = gates[static_cast<size_t>(g)] * hidden_ + p.unit;
                          Expr from = (spec_.direction_of(p.row) * hidden_ + k) * (gates_ * hidden_);
                          Expr weight = load(input(1), from + column);
                          b_.emit(store(sums, g, load(sums, g) + value * weight));
                        }
                      });
                    });
                  });
                });
                for (int64_t g = 0; g < count; ++g)
                  b_.emit(store(partial, (slice * count + g) * kWarp + lane, load(sums, g)));
                b_.emit(barrier());
                b_.when(eq(slice, 0) && inside, [&] {
                  b_.when(live, [&] { finish_live(p, partial, sums, count, finish); });
                  if (last) b_.when(logical_not(live), [&] { keep(p, p.step, old_h(p), f32(0)); });
                });
              });
  }

  void finish_live(const Point& p, const Buffer& partial, const Buffer& sums, int64_t count,
                   const Finish& finish) {
    std::vector<Expr> totals;
    for (int64_t g = 0; g < count; ++g) {
      Expr total = load(sums, g);  // of the first warp itself
      const Expr lane = mod(p.unit, kWarp);
      for (int64_t s = 1; s < slices_; ++s) total = total + load(partial, (s * count + g) * kWarp + lane);
      b_.emit(store(sums, g, total));
      totals.push_back(load(sums, g));
    }
    finish(p, totals);
  }

  void lstm_step(const Expr& step) {
    auto peephole = [&](const Point& p, int64_t g, Expr sum, const Expr& cell) {
      return present(5)
                 ? sum +
                       load(input(5), spec_.direction_of(p.row) * (3 * hidden_) + g * hidden_ + p.unit) * cell
                 : sum;
    };
    products(step, {0, 1, 2, 3}, h_, mod(step, 2) * elements_, true, [&](const Point& p, const auto& sums) {
      auto gate = [&](int64_t g) { return projected(p, g) + sums[static_cast<size_t>(g)]; };
      b_.let("old_cell", load(cell(), element(p)), [&](const Expr& old) {
        b_.let("input_gate", sigmoid(peephole(p, 0, gate(0), old)), [&](const Expr& i) {
          Expr f = spec_.attrs.couple_gates ? f32(1) - i : sigmoid(peephole(p, 2, gate(2), old));
          b_.let("new_cell", f * old + i * tanh_of(gate(3)), [&](const Expr& c) {
            b_.let("new_h", sigmoid(peephole(p, 1, gate(1), c)) * tanh_of(c), [&](const Expr& h) {
              b_.emit(store(cell(), element(p), c));
              keep(p, time(p), h, h);
            });
          });
        });
      });
    });
  }

  void rnn_step(const Expr& step) {
    products(step, {0}, h_, mod(step, 2) * elements_, true, [&](const Point& p, const auto& sums) {
      Expr sum = projected(p, 0) + sums[0];
      b_.let("new_h", spec_.attrs.relu ? max(sum, f32(0)) : tanh_of(sum),
             [&](const Expr& h) { keep(p, time(p), h, h); });
    });
  }

  /// h = (1 - z) * candidate + z * h.
  void finish_gru(const Point& p, const Expr& update_gate, const Expr& candidate) {
    b_.let("update", update_gate, [&](const Expr& z) {
      b_.let("new_h", (f32(1) - z) * tanh_of(candidate) + z * old_h(p),
             [&](const Expr& h) { keep(p, time(p), h, h); });
    });
  }

  void linear_gru_step(const Expr& step) {
    products(step, {0, 1, 2}, h_, mod(step, 2) * elements_, true, [&](const Point& p, const auto& sums) {
      Expr product =
          present(4) ? sums[2] + load(input(4), spec_.direction_of(p.row) * hidden_ + p.unit) : sums[2];
      Expr reset = sigmoid(projected(p, 1) + sums[1]);
      finish_gru(p, sigmoid(projected(p, 0) + sums[0]), projected(p, 2) + reset * product);
    });
  }

  void gru_step(const Expr& step) {
    products(step, {0, 1}, h_, mod(step, 2) * elements_, false, [&](const Point& p, const auto& sums) {
      b_.emit(store(update_, element(p), sigmoid(projected(p, 0) + sums[0])));
      b_.emit(store(reset_h_, element(p), sigmoid(projected(p, 1) + sums[1]) * old_h(p)));
    });
    products(step, {2}, reset_h_, 0, true, [&](const Point& p, const auto& sums) {
      finish_gru(p, load(update_, element(p)), projected(p, 2) + sums[0]);
    });
  }

  const RecurrenceLoops& spec_;
  LoopBuilder& b_;
  int64_t hidden_, gates_ = 1, slices_ = 1;
  Expr elements_;
  Buffer h_, update_, reset_h_;
};

}  // namespace

void RecurrenceLoops::build_launches(LoopBuilder& builder) const {
  internal_check(attrs.form.weight_block == 0, "a recurrence on a GPU reads its weight as the model has it");
  Launches(*this, builder).build();
}

}  // namespace gantry
