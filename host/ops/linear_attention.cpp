// nn.linear_attention: a loop nest by hand, as steps depend on each other. Columns of a state do not: on a
// GPU each is a thread's, on a CPU each state.
#include "host/ops/linear_attention.h"

#include "host/loops/stmt.h"
#include "host/ops/families.h"
#include "host/ops/repeat.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require;

/// What is given with keys of the shape (B, T, G, D): its extents are theirs, the last one perhaps 1, one for
/// all.
void require_with_keys(const Shape& given, const Shape& key, const char* name, Function& function,
                       const Node& node) {
  const char* const axes[] = {"sequences", "steps", "heads", "features"};
  const size_t last = given.size() - 1;
  for (size_t axis = 0; axis < last; ++axis) {
    const std::string what = fmt::format("{} of keys and {}", axes[axis], name);
    ops::unify(key[axis], given[axis], function, node, what.c_str());
  }
  const Dim &own = given[last], &each = key[last];
  require(!own.is_constant() || own == Dim(1) || !provably_different(own, each),
          "{} of {}: {} is neither 1 nor that of keys, {}", axes[last], name, own.str(), each.str());
  ops::require_repeatable(own, each, function, node);
}

std::vector<TensorType> infer_linear_attention(const Node& node, Function& function) {
  const auto& a = node.attrs_as<LinearAttentionAttrs>();
  const size_t count = 4 + (a.decays ? 1 : 0) + (a.corrects ? 1 : 0);
  require(node.inputs.size() == count, "{} inputs, not {}", node.inputs.size(), count);
  for (size_t i = 0; i < count; ++i) {
    const TensorType& type = input_type(node, i);
    ops::require_dtype(type.dtype == DType::kF32, type.dtype);
    const bool beta = a.corrects && i + 1 == count;
    require(type.rank() == (beta ? 3 : 4), "its input {} is {}", i, type.str());
  }
  const Shape &query = input_type(node, 0).shape, &key = input_type(node, 1).shape,
              &value = input_type(node, 2).shape;
  const Shape& state = input_type(node, 3).shape;
  const auto same = [&](const Dim& x, const Dim& y, const char* what) {
    ops::unify(x, y, function, node, what);
  };
  for (size_t axis : {size_t{0}, size_t{1}}) {
    same(query[axis], key[axis], "steps of queries and keys");
    same(key[axis], value[axis], "steps of keys and values");
  }
  same(key[2], value[2], "heads of keys and values");
  same(query[3], key[3], "features of queries and keys");
  same(state[0], key[0], "states and sequences");
  same(state[1], key[2], "states and heads");
  same(state[2], key[3], "rows of the state and features of keys");
  same(state[3], value[3], "columns of the state and features of values");
  if (a.decays) require_with_keys(input_type(node, 4).shape, key, "decays", function, node);
  if (a.corrects) require_with_keys(input_type(node, count - 1).shape, key, "betas", function, node);
  const auto query_heads = query[2].constant(), heads = key[2].constant();
  require(!heads || *heads > 0, "there are no heads of keys");
  require(!query_heads || !heads || *query_heads % *heads == 0,
          "{} heads of queries do not share {} heads of keys", query[2].str(), key[2].str());
  return {{DType::kF32, {query[0], query[1], query[2], value[3]}}, {DType::kF32, state}};
}

/// Runs what is given for every column that is this thread's.
using Columns = std::function<void(const std::function<void(const Expr& column)>&)>;

struct Recurrence {
  LinearAttentionAttrs attrs;
  Expr batch, steps, query_heads, heads, rows, columns;
  Expr decay_heads_rows = 1;  ///< elements of a head's decay
  Expr beta_heads = 1;

  Expr group() const { return floordiv(query_heads, heads); }
  /// The place of (b, t, h, feature 0) among heads of that many features.
  Expr place(const Expr& b, const Expr& t, const Expr& h, const Expr& all, const Expr& features) const {
    return ((b * steps + t) * all + h) * features;
  }
};

/// One step of one state, which lies from `state` on in the second result.
void emit_step(LoopBuilder& b, const Recurrence& r, const Expr& batch, const Expr& head, const Expr& t,
               const Expr& state, const Columns& columns) {
  const Buffer &result = b.result(0), &states = b.result(1);
  const Expr key = r.place(batch, t, head, r.heads, r.rows),
             value = r.place(batch, t, head, r.heads, r.columns);
  const Expr first_query = head * r.group();
  // What is written lies where the first result of the step will: nothing reads that before.
  const Expr written = r.place(batch, t, first_query, r.query_heads, r.columns);
  const auto cell = [&](const Expr& row, const Expr& column) { return state + row * r.columns + column; };
  const auto add_to = [&](const Buffer& buffer, const Expr& at, const Expr& x) {
    b.emit(store(buffer, at, load(buffer, at) + x));
  };
  if (r.attrs.decays) {
    b.loop("row", r.rows, [&](const Expr& row) {
      const Expr at = r.place(batch, t, head, r.heads, r.decay_heads_rows) + min(row, r.decay_heads_rows - 1);
      b.let("kept", call(MathFn::kExp, {load(b.input(4), at)}), [&](const Expr& kept) {
        columns(
            [&](const Expr& m) { b.emit(store(states, cell(row, m), load(states, cell(row, m)) * kept)); });
      });
    });
  }
  if (r.attrs.corrects) {
    columns([&](const Expr& m) { b.emit(store(result, written + m, float_imm(DType::kF32, 0))); });
    b.loop("row", r.rows, [&](const Expr& row) {
      b.let("k", load(b.input(1), key + row), [&](const Expr& k) {
        columns([&](const Expr& m) { add_to(result, written + m, load(states, cell(row, m)) * k); });
      });
    });
    const Expr at = r.place(batch, t, min(head, r.beta_heads - 1), r.beta_heads, 1);
    b.let("beta", load(b.input(r.attrs.decays ? 5 : 4), at), [&](const Expr& beta) {
      columns([&](const Expr& m) {
        const Expr missing = load(b.input(2), value + m) - load(result, written + m);
        b.emit(store(result, written + m, beta * missing));
      });
    });
  } else {
    columns([&](const Expr& m) { b.emit(store(result, written + m, load(b.input(2), value + m))); });
  }
  b.loop("row", r.rows, [&](const Expr& row) {
    b.let("k", load(b.input(1), key + row), [&](const Expr& k) {
      columns([&](const Expr& m) { add_to(states, cell(row, m), k * load(result, written + m)); });
    });
  });
  b.loop("sharer", r.group(), [&](const Expr& sharer) {
    const Expr to = r.place(batch, t, first_query + sharer, r.query_heads, r.columns);
    const Expr query = r.place(batch, t, first_query + sharer, r.query_heads, r.rows);
    columns([&](const Expr& m) { b.emit(store(result, to + m, float_imm(DType::kF32, 0))); });
    b.loop("row", r.rows, [&](const Expr& row) {
      b.let("q", load(b.input(0), query + row) * float_imm(DType::kF32, r.attrs.scale), [&](const Expr& q) {
        columns([&](const Expr& m) { add_to(result, to + m, q * load(states, cell(row, m))); });
      });
    });
  });
}

/// All steps of one state.
void emit_state(LoopBuilder& b, const Recurrence& r, const Expr& index, const Columns& columns) {
  const Expr state = index * r.rows * r.columns;
  b.loop("row", r.rows, [&](const Expr& row) {
    columns([&](const Expr& m) {
      const Expr at = state + row * r.columns + m;
      b.emit(store(b.result(1), at, load(b.input(3), at)));
    });
  });
  b.loop("t", r.steps, [&](const Expr& t) {
    emit_step(b, r, floordiv(index, r.heads), mod(index, r.heads), t, state, columns);
  });
}

void on_cpu(LoopBuilder& b, const Recurrence& r) {
  const Columns all = [&](const auto& body) { b.loop("m", r.columns, body); };
  b.loop(
      "state", r.batch * r.heads, [&](const Expr& index) { emit_state(b, r, index, all); },
      LoopKind::kParallel);
}

void on_gpu(LoopBuilder& b, const Recurrence& r) {
  b.launch_flat(r.batch * r.heads * r.columns, [&](const Expr& thread) {
    const Columns own = [&](const auto& body) { body(mod(thread, r.columns)); };
    emit_state(b, r, floordiv(thread, r.columns), own);
  });
}

std::vector<Tensor> compute_linear_attention(const Node& node, const std::vector<Tensor>& in) {
  Recurrence r;
  r.attrs = node.attrs_as<LinearAttentionAttrs>();
  r.batch = in[0].shape()[0];
  r.steps = in[0].shape()[1];
  r.query_heads = in[0].shape()[2];
  r.heads = in[1].shape()[2];
  r.rows = in[1].shape()[3];
  r.columns = in[2].shape()[3];
  if (r.attrs.decays) r.decay_heads_rows = in[4].shape()[3];
  if (r.attrs.corrects) r.beta_heads = in.back().shape()[2];
  return extern_kernel(
      in, {to_exprs(node.results[0]->type.shape), to_exprs(node.results[1]->type.shape)},
      {DType::kF32, DType::kF32}, [r](LoopBuilder& b) { on_cpu(b, r); }, "linear_attention",
      [r](LoopBuilder& b) { on_gpu(b, r); });
}

}  // namespace

void add_linear_attention_ops(OpSet& set) {
  OpDef op = ops::define(nn::linear_attention, FusionClass::kOpaque, LayoutBehaviour::kNone,
                         {"query", "key", "value", "state", "decay", "beta"}, 2);
  op.infer = infer_linear_attention;
  op.compute = compute_linear_attention;
  op.flops = [](const Node& node) {
    const Shape& key = node.inputs[1]->type.shape;
    return element_count(key) * node.inputs[2]->type.shape[3] * 6;
  };
  set.add(std::move(op));
}

}  // namespace gantry
