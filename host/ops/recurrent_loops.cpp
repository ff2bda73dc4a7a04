#include "host/ops/recurrent_loops.h"

#include <algorithm>

#include "host/tensor/fold.h"
#include "host/tensor/simplify.h"

namespace gantry {
namespace {

using recurrence::f32;
using recurrence::sigmoid;
using recurrence::tanh_of;
using Kind = RecurrenceLoops::Kind;

/// Of f32; what is too large for a stack, in memory that each thread has.
Buffer local_buffer(std::string name, int64_t count) {
  constexpr int64_t kStackBytes = 24 << 10;
  auto buffer = std::make_shared<BufferNode>();
  buffer->name = std::move(name);
  buffer->dtype = DType::kF32;
  buffer->element_count = count;
  buffer->scope =
      count * byte_width(buffer->dtype) > kStackBytes ? BufferScope::kThread : BufferScope::kLocal;
  buffer->alignment = 64;
  return buffer;
}

/// The loops of groups of `rows` sequences of a direction.
class Nest {
 public:
  Nest(const RecurrenceLoops& spec, const LoopBuilder& builder, int64_t rows)
      : spec_(spec), builder_(builder), hidden_(spec.hidden), rows_(rows), step_(make_var("step")) {
    gates_ = spec.kind == Kind::kLstm ? 4 : spec.kind == Kind::kGru ? 3 : 1;
    for (int64_t run : spec.runs) {
      run_at_.push_back(row_columns_);
      row_columns_ += packed() ? padded_run(run) : run;
    }
    gate_values_ = local_buffer(builder.unique_name("gates"), rows * row_columns_);
    reset_state_ = local_buffer(builder.unique_name("reset_state"), rows * hidden_);
    sums_ = local_buffer(builder.unique_name("sums"), rows * widest() * kLanes);
  }

  /// `groups` of them in each direction, from that sequence on.
  Stmt build(const Expr& groups, const Expr& first) {
    Expr group = make_var("group");
    const auto known = constant_of(groups);
    many_groups_ = !spec_.attrs.form.directions_in_turn && (spec_.directions > 1 || (known && *known > 1));
    const bool all_at_once = spec_.kind != Kind::kGru || spec_.attrs.linear_before_reset;
    const auto all = [&](auto what) { return std::all_of(spec_.runs.begin(), spec_.runs.end(), what); };
    halves_ = spec_.attrs.form.directions_in_turn &&
              all([&](int64_t run) { return run / (widest() * kLanes) % 2 == 0; });
    turns_ = all_at_once && (halves_ || all([&](int64_t run) { return !shared(run); }));
    direction_ = spec_.directions == 1 ? Expr(0) : floordiv(group, groups);
    sequence_ = first + (spec_.directions == 1 ? group : mod(group, groups)) * rows_;
    Stmt steps = for_loop(step_, 0, spec_.steps, LoopKind::kSerial, one_step());
    Stmt body = block({initial_states(), steps});
    for (const Buffer& buffer : {gate_values_, reset_state_}) body = allocate(buffer, body);
    const LoopKind kind = spec_.attrs.form.directions_in_turn ? LoopKind::kSerial : LoopKind::kParallel;
    return for_loop(group, 0, groups * spec_.directions, kind, body);
  }

 private:
  static constexpr int64_t kMaxVectors = 8, kLanes = kRecurrentLanes;
  // Weights that take a core longer to read, or to multiply, than sharing them out costs.
  static constexpr int64_t kSharedBytes = 256 << 10;

  /// Columns of a product whose sums are in registers together.
  struct Strip {
    Expr column;           ///< of the run
    int64_t width, lanes;  ///< vectors of so many columns
    bool padded = false;   ///< its last columns may be beyond the run's end
  };
  /// A product over a run of the recurrent weight's columns with a vector of each row; sums start from
  /// `start`(row, time, column of the run).
  struct Product {
    size_t run;
    Buffer vectors;
    std::function<Expr(Expr)> vector_at;
    std::function<Expr(Expr, Expr, Expr)> start;
  };

  bool packed() const { return spec_.attrs.form.weight_block > 0; }
  int64_t widest() const { return packed() ? spec_.attrs.form.weight_block / kLanes : kMaxVectors; }
  size_t states() const { return spec_.kind == Kind::kLstm ? 2 : 1; }
  bool present(size_t input) const { return input < spec_.input_at.size() && spec_.input_at[input] >= 0; }
  const Buffer& input(size_t i) const { return builder_.input(spec_.input_at[i]); }
  const Buffer& y() const { return builder_.result(0); }
  /// The state h (0) or c (1): kept in the result that returns it.
  const Buffer& state(int i) const { return builder_.result(1 + i); }
  /// Of row r of the group, among the rows of all directions.
  Expr row(const Expr& r) const { return direction_ * spec_.batch + sequence_ + r; }
  Expr state_row(const Expr& r) const { return row(r) * hidden_; }

  /// for j in [0, count) by vectors, shorter ones at the end: body(j).
  static Stmt vector_loop(int64_t count, const std::function<Stmt(Expr)>& body) {
    std::vector<Stmt> parts;
    int64_t done = 0;
    for (int64_t lanes = kLanes; lanes > 0; lanes /= 2) {
      const int64_t vectors = (count - done) / lanes;
      if (vectors == 0) continue;
      Expr v = make_var("v"), lane = make_var("lane");
      Stmt inner = for_loop(lane, 0, lanes, LoopKind::kVectorized, body(v * lanes + done + lane));
      parts.push_back(for_loop(v, 0, vectors, LoopKind::kSerial, inner));
      done += vectors * lanes;
    }
    return block(std::move(parts));
  }
  Stmt each_row(LoopKind kind, const std::function<Stmt(Expr)>& body) const {
    Expr r = make_var("r");
    return for_loop(r, 0, rows_, kind, body(r));
  }

  Stmt initial_states() const {
    return each_row(LoopKind::kSerial, [&](const Expr& r) {
      std::vector<Stmt> copies;
      for (size_t s = 0; s < states(); ++s) {
        copies.push_back(vector_loop(hidden_, [&](Expr j) {
          return store(state(static_cast<int>(s)), state_row(r) + j, load(input(2 + s), state_row(r) + j));
        }));
      }
      return block(std::move(copies));
    });
  }

  bool has_lengths() const { return present(2 + states()); }
  Expr length(const Expr& r) const {
    if (!has_lengths()) return spec_.steps;
    return max(Expr(0), min(spec_.steps, cast(DType::kI64, load(input(2 + states()), sequence_ + r))));
  }
  Expr longest() const {
    Expr most = length(0);
    for (int64_t r = 1; r < rows_; ++r) most = max(most, length(r));
    return most;
  }
  /// body(time of the row's step), of a row that has ended within its steps.
  Stmt at_time(const Expr& r, const std::function<Stmt(Expr)>& body) const {
    Expr t = make_var("t");
    Expr time = spec_.time_in(direction_, step_, length(r));
    return let(t, has_lengths() ? max(time, Expr(0)) : time, body(t));
  }

  Stmt one_step() const {
    Stmt ended = each_row(LoopKind::kSerial, [&](const Expr& r) { return padding(r); });
    Stmt live = live_step();
    return has_lengths() ? if_stmt(lt(step_, longest()), live, ended) : live;
  }

  Expr output_row(const Expr& t, const Expr& r) const { return (t * spec_.rows() + row(r)) * hidden_; }
  Stmt padding(const Expr& r) const {
    return vector_loop(hidden_, [&](Expr j) { return store(y(), output_row(step_, r) + j, f32(0)); });
  }

  Stmt live_step() const {
    switch (spec_.kind) {
      case Kind::kLstm:
        return block({product(of_state(0)), update([&](const Expr& r, const Expr&) { return lstm_row(r); })});
      case Kind::kGru:
        return gru_step();
      case Kind::kRnn:
        return block({product(of_state(0)), update([&](const Expr& r, const Expr&) { return rnn_row(r); })});
    }
    return {};
  }

  /// body(r, t) makes the new state of every row that goes on, and Y gets it.
  Stmt update(const std::function<Stmt(Expr, Expr)>& body) const {
    return each_row(LoopKind::kSerial, [&](const Expr& r) {
      Stmt work = at_time(r, [&](const Expr& t) {
        Stmt output = vector_loop(hidden_, [&](Expr j) {
          return store(y(), output_row(t, r) + j, load(state(0), state_row(r) + j));
        });
        return block({body(r, t), output});
      });
      return has_lengths() ? if_stmt(lt(step_, length(r)), work, padding(r)) : work;
    });
  }

  /// With the state h, from the projection.
  Product of_state(size_t run) const {
    return {run, state(0), [this](const Expr& r) { return state_row(r); }, projected(run)};
  }
  std::function<Expr(Expr, Expr, Expr)> projected(size_t run) const {
    int64_t before = 0;
    for (size_t i = 0; i < run; ++i) before += spec_.runs[i];
    return [=, this](const Expr& r, const Expr& t, const Expr& column) {
      return load(input(0), projection_row(r, t) + before + column);
    };
  }
  Expr projection_row(const Expr& r, const Expr& t) const { return spec_.projection_row(row(r), t, gates_); }

  /// Whether a product is shared among the threads: where there is a single group; else each thread has
  /// groups of its own.
  bool shared(int64_t columns) const {
    return !many_groups_ && rows_ * hidden_ * columns * byte_width(DType::kF32) >= kSharedBytes;
  }

  /// The whole strips of a product.
  Stmt product_strips(const Product& p, int64_t strips) const {
    const int64_t wide = widest() * kLanes;
    const bool divided = shared(spec_.runs[p.run]);
    const int64_t halves = divided && halves_ ? 2 : 1, count = strips / halves;
    Expr half = make_var("half"), strip = make_var("strip");
    const Expr first = halves > 1 ? half * count : Expr(0);
    Stmt body = product_strip(p, {(first + in_turn(strip, count)) * wide, widest(), kLanes});
    if (halves == 1)
      return for_loop(strip, 0, strips, divided ? LoopKind::kParallel : LoopKind::kSerial, body);
    return for_loop(half, 0, halves, LoopKind::kParallel, for_loop(strip, 0, count, LoopKind::kSerial, body));
  }

  /// gates[row][run] = start + vector * recurrent[:, run].
  Stmt product(const Product& p) const {
    const int64_t columns = spec_.runs[p.run], wide = widest() * kLanes, strips = columns / wide;
    std::vector<Stmt> parts;
    if (strips > 0) parts.push_back(product_strips(p, strips));
    int64_t column = strips * wide;
    if (packed() && column < columns) {
      const int64_t width = (padded_run(columns) - column) / kLanes;
      parts.push_back(product_strip(p, {Expr(column), width, kLanes, columns % kLanes != 0}));
      column = columns;
    }
    for (int64_t lanes = kLanes; lanes > 0; lanes /= 2) {
      const int64_t width = (columns - column) / lanes;
      if (width == 0) continue;
      parts.push_back(product_strip(p, {Expr(column), width, lanes}));
      column += width * lanes;
    }
    return block(std::move(parts));
  }

  /// Where what unit k of a state meets begins, of a strip's columns in the recurrent weight.
  Expr weight_row(size_t run, const Strip& strip, const Expr& k) const {
    const Expr column = Expr(run_at_[run]) + strip.column;
    if (packed()) return (direction_ * row_columns_ + column) * hidden_ + k * (strip.width * strip.lanes);
    return (direction_ * hidden_ + k) * row_columns_ + column;
  }

  /// i, of `count`; where steps take turns, counted from the other end in odd ones.
  Expr in_turn(const Expr& i, int64_t count) const {
    return turns_ ? i + mod(step_, 2) * (count - 1 - i * 2) : i;
  }

  Stmt product_strip(const Product& p, const Strip& strip) const {
    auto each_sum = [&](const Expr& r, const std::function<Stmt(Expr sum, Expr column)>& body) {
      Expr v = make_var("v"), lane = make_var("lane");
      const Expr j = v * strip.lanes + lane;
      Stmt inner =
          for_loop(lane, 0, strip.lanes, LoopKind::kVectorized, body(r * (strip.width * strip.lanes) + j, j));
      return for_loop(v, 0, strip.width, LoopKind::kUnrolled, inner);
    };
    const Expr end(spec_.runs[p.run]);
    Stmt clear = each_row(LoopKind::kUnrolled, [&](const Expr& r) {
      return at_time(r, [&](const Expr& t) {
        return each_sum(r, [&](const Expr& sum, const Expr& j) {
          const Expr column = strip.column + j, first = p.start(r, t, column);
          return store(sums_, sum, strip.padded ? if_then_else(lt(column, end), first, f32(0)) : first);
        });
      });
    });
    Expr k = make_var("k"), unit = make_var("unit");
    Stmt accumulate = each_row(LoopKind::kUnrolled, [&](const Expr& r) {
      Expr value = make_var("value", DType::kF32);
      Stmt sums = each_sum(r, [&](const Expr& sum, const Expr& j) {
        return store(sums_, sum,
                     load(sums_, sum) + value * load(input(1), weight_row(p.run, strip, unit) + j));
      });
      return let(value, load(p.vectors, p.vector_at(r) + unit), sums);
    });
    Stmt loop = for_loop(k, 0, hidden_, LoopKind::kSerial, let(unit, in_turn(k, hidden_), accumulate));
    Stmt write = each_row(LoopKind::kUnrolled, [&](const Expr& r) {
      return each_sum(r, [&](const Expr& sum, const Expr& j) {
        return store(gate_values_, gate_at(p.run, r) + strip.column + j, load(sums_, sum));
      });
    });
    return allocate(sums_, block({clear, loop, write}));
  }

  Expr gate_at(size_t run, const Expr& r) const { return r * row_columns_ + run_at_[run]; }
  /// Gate g of a row, the gates of a run following each other.
  Expr gate(const Expr& r, size_t run, int64_t g, const Expr& j) const {
    return load(gate_values_, gate_at(run, r) + g * hidden_ + j);
  }

  Stmt lstm_row(const Expr& r) const {
    auto peephole = [&](int64_t g, Expr sum, const Expr& cell, const Expr& j) {
      return present(5) ? sum + load(input(5), direction_ * (3 * hidden_) + g * hidden_ + j) * cell : sum;
    };
    return vector_loop(hidden_, [&](Expr j) {
      Expr old_var = make_var("old_cell", DType::kF32), cell = make_var("cell", DType::kF32);
      Expr i_var = make_var("input_gate", DType::kF32);
      Expr i = sigmoid(peephole(0, gate(r, 0, 0, j), old_var, j));
      Expr f = spec_.attrs.couple_gates ? f32(1) - i_var : sigmoid(peephole(2, gate(r, 0, 2, j), old_var, j));
      Expr o = sigmoid(peephole(1, gate(r, 0, 1, j), cell, j));
      Stmt stores = block(
          {store(state(1), state_row(r) + j, cell), store(state(0), state_row(r) + j, o * tanh_of(cell))});
      Stmt body = let(cell, f * old_var + i_var * tanh_of(gate(r, 0, 3, j)), stores);
      return let(old_var, load(state(1), state_row(r) + j), let(i_var, i, body));
    });
  }

  Stmt gru_step() const {
    std::vector<Stmt> parts;
    if (spec_.attrs.linear_before_reset) {
      // Third gate: reset * (h R + bias) + projection; the product starts from the bias.
      const Product third{1, state(0), [this](const Expr& r) { return state_row(r); },
                          [this](const Expr&, const Expr&, const Expr& column) {
                            return present(4) ? load(input(4), direction_ * hidden_ + column) : f32(0);
                          }};
      const Product others = of_state(0);
      const Stmt forth = block({product(others), product(third)});
      parts.push_back(turns_ ? if_stmt(eq(mod(step_, 2), 0), forth, block({product(third), product(others)}))
                             : forth);
    } else {
      parts.push_back(product(of_state(0)));
      parts.push_back(each_row(LoopKind::kSerial, [&](const Expr& r) {
        return vector_loop(hidden_, [&](Expr j) {
          return store(reset_state_, r * hidden_ + j,
                       sigmoid(gate(r, 0, 1, j)) * load(state(0), state_row(r) + j));
        });
      }));
      parts.push_back(
          product({1, reset_state_, [this](const Expr& r) { return r * hidden_; }, projected(1)}));
    }
    parts.push_back(update([&](const Expr& r, const Expr& t) { return gru_row(r, t); }));
    return block(std::move(parts));
  }

  Stmt gru_row(const Expr& r, const Expr& t) const {
    return vector_loop(hidden_, [&](Expr j) {
      Expr sum = gate(r, 1, 0, j);
      if (spec_.attrs.linear_before_reset)
        sum = load(input(0), projection_row(r, t) + 2 * hidden_ + j) + sigmoid(gate(r, 0, 1, j)) * sum;
      Expr z = make_var("update_gate", DType::kF32), h = load(state(0), state_row(r) + j);
      Stmt body = store(state(0), state_row(r) + j, (f32(1) - z) * tanh_of(sum) + z * h);
      return let(z, sigmoid(gate(r, 0, 0, j)), body);
    });
  }

  Stmt rnn_row(const Expr& r) const {
    return vector_loop(hidden_, [&](Expr j) {
      Expr sum = gate(r, 0, 0, j);
      return store(state(0), state_row(r) + j, spec_.attrs.relu ? max(sum, f32(0)) : tanh_of(sum));
    });
  }

  const RecurrenceLoops& spec_;
  const LoopBuilder& builder_;
  int64_t hidden_, rows_, gates_ = 1;
  std::vector<int64_t> run_at_;  ///< first column of each run among a row's gates, as the weight has them
  int64_t row_columns_ = 0;      ///< of all runs
  Expr direction_, sequence_, step_;
  bool many_groups_ = false;  ///< that threads can share
  bool halves_ = false;       ///< a shared product is two ranges of strips
  /// Odd steps read the weights from their end, of halves each half: what a step read last, caches still have
  /// for the next one's first reads. (Threads that share a product strip by strip keep their parts of the
  /// weights instead.)
  bool turns_ = false;
  Buffer gate_values_, reset_state_, sums_;
};

}  // namespace

Expr RecurrenceLoops::time_in(const Expr& direction, const Expr& step, const Expr& length) const {
  const Expr back = length - 1 - step;
  if (directions == 1) return attrs.reverse ? back : step;
  return select(eq(direction, Expr(0)), step, back);
}

void RecurrenceLoops::build(LoopBuilder& builder) const {
  const int64_t together = attrs.form.sequences;
  const Expr groups = simplify(floordiv(batch, together)), rest = simplify(batch - groups * together);
  const auto fixed_rest = constant_of(rest);
  if (constant_of(groups) != 0) builder.emit(Nest(*this, builder, together).build(groups, 0));
  if (fixed_rest == 0) return;
  // Fewer, or one by one where their number is not known.
  const Expr first = groups * together;
  builder.emit(fixed_rest ? Nest(*this, builder, *fixed_rest).build(1, first)
                          : Nest(*this, builder, 1).build(rest, first));
}

}  // namespace gantry
