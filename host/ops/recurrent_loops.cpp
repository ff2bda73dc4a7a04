#include "host/ops/recurrent_loops.h"

#include <algorithm>

namespace gantry {
namespace {

using Kind = RecurrenceLoops::Kind;

Expr f32(double value) {
  return float_imm(DType::kF32, value);
}
Expr sigmoid(Expr x) {
  return call(MathFn::kSigmoid, {std::move(x)});
}
Expr tanh_of(Expr x) {
  return call(MathFn::kTanh, {std::move(x)});
}

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

/// Builds the body for one row: a sequence in one direction.
class Nest {
 public:
  Nest(const RecurrenceLoops& spec, const LoopBuilder& builder)
      : spec_(spec), builder_(builder), hidden_(spec.hidden), row_(make_var("row")), step_(make_var("step")) {
    gates_ = spec.kind == Kind::kLstm ? 4 : spec.kind == Kind::kGru ? 3 : 1;
    gate_values_ = local_buffer("gates", gates_ * hidden_);
    reset_state_ = local_buffer("reset_state", hidden_);
    sums_ = local_buffer("sums", kMaxVectors * kLanes);
  }

  Stmt build() {
    Stmt steps = for_loop(step_, 0, spec_.steps, LoopKind::kSerial, one_step());
    Stmt body = block({initial_states(), steps});
    for (const Buffer& buffer : {gate_values_, reset_state_}) body = allocate(buffer, body);
    return for_loop(row_, 0, spec_.rows(), LoopKind::kParallel, body);
  }

 private:
  static constexpr int64_t kMaxVectors = 8, kLanes = kRecurrentLanes;
  // Weights that take a core longer to read than sharing them out costs.
  static constexpr int64_t kSharedBytes = 256 << 10;

  size_t states() const { return spec_.kind == Kind::kLstm ? 2 : 1; }
  bool present(size_t input) const { return input < spec_.input_at.size() && spec_.input_at[input] >= 0; }
  const Buffer& input(size_t i) const { return builder_.input(spec_.input_at[i]); }
  const Buffer& y() const { return builder_.result(0); }
  /// The state h (0) or c (1): kept in the result that returns it.
  const Buffer& state(int i) const { return builder_.result(1 + i); }
  Expr state_row() const { return row_ * hidden_; }
  Expr direction() const { return spec_.direction_of(row_); }

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

  Stmt initial_states() const {
    std::vector<Stmt> copies;
    for (size_t s = 0; s < states(); ++s) {
      copies.push_back(vector_loop(hidden_, [&](Expr j) {
        return store(state(static_cast<int>(s)), state_row() + j, load(input(2 + s), state_row() + j));
      }));
    }
    return block(copies);
  }

  Stmt one_step() {
    size_t lengths = 2 + states();
    if (!present(lengths)) return live_step(spec_.time_of(row_, step_, spec_.steps));
    Expr length =
        max(Expr(0), min(spec_.steps, cast(DType::kI64, load(input(lengths), spec_.sequence_of(row_)))));
    Expr bound = make_var("length");
    Stmt padding = vector_loop(hidden_, [&](Expr j) { return store(y(), output_row(step_) + j, f32(0)); });
    return let(bound, length,
               if_stmt(lt(step_, bound), live_step(spec_.time_of(row_, step_, bound)), padding));
  }

  Expr output_row(const Expr& t) const { return (t * spec_.rows() + row_) * hidden_; }

  Stmt live_step(const Expr& t_value) {
    Expr t = make_var("t");
    Expr projection = spec_.projection_row(row_, t, gates_);
    Stmt work = spec_.kind == Kind::kLstm  ? lstm_step(projection)
                : spec_.kind == Kind::kGru ? gru_step(projection)
                                           : rnn_step(projection);
    Stmt output = vector_loop(
        hidden_, [&](Expr j) { return store(y(), output_row(t) + j, load(state(0), state_row() + j)); });
    return let(t, t_value, block({work, output}));
  }

  /// gates[begin, end) = start(column) + vector * recurrent[:, begin, end).
  Stmt product(int64_t begin, int64_t end, const Buffer& vector, const Expr& vector_at,
               const std::function<Expr(Expr)>& start) const {
    std::vector<Stmt> parts;
    const int64_t wide = spec_.attrs.weight_block > 0 ? spec_.attrs.weight_block : kMaxVectors * kLanes;
    const int64_t strips = (end - begin) / wide;
    if (strips > 0) {
      Expr strip = make_var("strip");
      Stmt body = product_strip(Expr(begin) + strip * wide, wide / kLanes, kLanes, vector, vector_at, start);
      // Among the threads where there is a single row; else each has rows of its own.
      const bool shared = hidden_ * (end - begin) * byte_width(DType::kF32) >= kSharedBytes;
      parts.push_back(for_loop(strip, 0, strips, shared ? LoopKind::kParallel : LoopKind::kSerial, body));
    }
    int64_t column = begin + strips * wide;
    for (int64_t lanes = kLanes; lanes > 0; lanes /= 2) {
      const int64_t width = (end - column) / lanes;
      if (width == 0) continue;
      parts.push_back(product_strip(Expr(column), width, lanes, vector, vector_at, start));
      column += width * lanes;
    }
    return block(std::move(parts));
  }

  /// Where the recurrent weight's columns from `column` on lie that unit k of the state meets. Packed, a
  /// block's columns follow those of the units before.
  Expr weight_row(const Expr& column, const Expr& k) const {
    const Expr columns(gates_ * hidden_);
    if (const int64_t block = spec_.attrs.weight_block; block > 0)
      return direction() * (columns * Expr(hidden_)) + column * Expr(hidden_) + k * Expr(block);
    return (direction() * hidden_ + k) * columns + column;
  }

  /// `width` vectors of so many columns, from `column` on.
  Stmt product_strip(const Expr& column, int64_t width, int64_t lanes, const Buffer& vector,
                     const Expr& vector_at, const std::function<Expr(Expr)>& start) const {
    auto each_vector = [&](const std::function<Stmt(Expr)>& body) {
      Expr v = make_var("v"), lane = make_var("lane");
      Stmt inner = for_loop(lane, 0, lanes, LoopKind::kVectorized, body(v * lanes + lane));
      return for_loop(v, 0, width, LoopKind::kUnrolled, inner);
    };
    Stmt clear = each_vector([&](Expr j) { return store(sums_, j, start(column + j)); });
    Expr k = make_var("k"), value = make_var("value", DType::kF32);
    Stmt accumulate = each_vector([&](Expr j) {
      return store(sums_, j, load(sums_, j) + value * load(input(1), weight_row(column, k) + j));
    });
    Stmt loop =
        for_loop(k, 0, hidden_, LoopKind::kSerial, let(value, load(vector, vector_at + k), accumulate));
    Stmt write = each_vector([&](Expr j) { return store(gate_values_, column + j, load(sums_, j)); });
    return allocate(sums_, block({clear, loop, write}));
  }

  std::function<Expr(Expr)> projected(const Expr& row) const {
    return [this, row](Expr column) { return load(input(0), row + column); };
  }
  Expr gate(int64_t g, const Expr& j) const { return load(gate_values_, Expr(g * hidden_) + j); }

  Stmt lstm_step(const Expr& row) {
    Stmt products = product(0, 4 * hidden_, state(0), state_row(), projected(row));
    auto peephole = [&](int64_t g, Expr sum, const Expr& cell, const Expr& j) {
      return present(5) ? sum + load(input(5), direction() * (3 * hidden_) + g * hidden_ + j) * cell : sum;
    };
    Stmt update = vector_loop(hidden_, [&](Expr j) {
      Expr old_var = make_var("old_cell", DType::kF32), cell = make_var("cell", DType::kF32);
      Expr i_var = make_var("input_gate", DType::kF32);
      Expr i = sigmoid(peephole(0, gate(0, j), old_var, j));
      Expr f = spec_.attrs.couple_gates ? f32(1) - i_var : sigmoid(peephole(2, gate(2, j), old_var, j));
      Expr o = sigmoid(peephole(1, gate(1, j), cell, j));
      Stmt stores = block(
          {store(state(1), state_row() + j, cell), store(state(0), state_row() + j, o * tanh_of(cell))});
      Stmt body = let(cell, f * old_var + i_var * tanh_of(gate(3, j)), stores);
      return let(old_var, load(state(1), state_row() + j), let(i_var, i, body));
    });
    return block({products, update});
  }

  Stmt gru_step(const Expr& row) {
    Stmt update_and_reset = product(0, 2 * hidden_, state(0), state_row(), projected(row));
    Stmt candidate;
    if (spec_.attrs.linear_before_reset) {
      // Third gate: reset * (h R + bias) + projection; the product starts from the bias.
      candidate = product(2 * hidden_, 3 * hidden_, state(0), state_row(), [&](Expr column) {
        return present(4) ? load(input(4), direction() * hidden_ + column - 2 * hidden_) : f32(0);
      });
    } else {
      Stmt reset = vector_loop(hidden_, [&](Expr j) {
        return store(reset_state_, j, sigmoid(gate(1, j)) * load(state(0), state_row() + j));
      });
      candidate = block({reset, product(2 * hidden_, 3 * hidden_, reset_state_, 0, projected(row))});
    }
    Stmt update = vector_loop(hidden_, [&](Expr j) {
      Expr sum = gate(2, j);
      if (spec_.attrs.linear_before_reset)
        sum = load(input(0), row + 2 * hidden_ + j) + sigmoid(gate(1, j)) * sum;
      Expr z = make_var("update_gate", DType::kF32), h = load(state(0), state_row() + j);
      Stmt body = store(state(0), state_row() + j, (f32(1) - z) * tanh_of(sum) + z * h);
      return let(z, sigmoid(gate(0, j)), body);
    });
    return block({update_and_reset, candidate, update});
  }

  Stmt rnn_step(const Expr& row) {
    Stmt products = product(0, hidden_, state(0), state_row(), projected(row));
    Stmt update = vector_loop(hidden_, [&](Expr j) {
      Expr sum = gate(0, j);
      return store(state(0), state_row() + j, spec_.attrs.relu ? max(sum, f32(0)) : tanh_of(sum));
    });
    return block({products, update});
  }

  const RecurrenceLoops& spec_;
  const LoopBuilder& builder_;
  int64_t hidden_, gates_ = 1;
  Expr row_, step_;
  Buffer gate_values_, reset_state_, sums_;
};

}  // namespace

Expr RecurrenceLoops::time_of(const Expr& row, const Expr& step, const Expr& length) const {
  const Expr back = length - 1 - step;
  if (directions == 1) return attrs.reverse ? back : step;
  return select(eq(direction_of(row), Expr(0)), step, back);
}

void RecurrenceLoops::build(LoopBuilder& builder) const {
  builder.emit(Nest(*this, builder).build());
}

}  // namespace gantry
