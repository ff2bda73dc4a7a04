#include "host/ops/shape_data.h"

#include "host/loops/stmt.h"
#include "host/ops/families.h"
#include "host/ops/index_lists.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require_vector;
using ops::within;

std::vector<TensorType> vector_type(int64_t count) {
  return {{DType::kI64, {count}}};
}

Expr if_negative(const Expr& x, const Expr& then) {
  return select(lt(x, Expr(0)), then, x);
}

// --- reshape_dims

std::vector<Tensor> compute_reshape_dims(const Node& node, const std::vector<Tensor>& in) {
  const auto& attrs = node.attrs_as<ReshapeDimsAttrs>();
  const int64_t count = node.result()->type.shape[0].value();
  auto body = [&](const std::vector<Expr>& at) {
    Expr total = 1, rest = 1, chosen = 0;
    for (const Dim& extent : attrs.extents) total = total * Expr(extent);
    std::vector<Expr> given, sizes;
    for (int64_t i = 0; i < count; ++i) {
      given.push_back(in[0]({Expr(i)}));
      Expr size = given.back();
      if (attrs.zero_copies && i < static_cast<int64_t>(attrs.extents.size()))
        size = select(eq(size, Expr(0)), Expr(attrs.extents[static_cast<size_t>(i)]), size);
      rest = rest * select(eq(given.back(), Expr(-1)), Expr(1), size);
      sizes.push_back(size);
    }
    const Expr left = floordiv(total, max(rest, Expr(1)));
    for (int64_t i = count; i-- > 0;) {
      const auto place = static_cast<size_t>(i);
      chosen = select(eq(at[0], Expr(i)), select(eq(given[place], Expr(-1)), left, sizes[place]), chosen);
    }
    return chosen;
  };
  return {compute({Expr(count)}, body, "reshape_dims")};
}

// --- loop nests over lists of axes

/// An op on small vectors of i64. `count`: elements of its result; `build`: the nest, which is given the length of the
/// last input.
template <typename AttrsType>
void add_nest(OpSet& set, const Op<AttrsType>& handle, std::vector<std::string> inputs,
              std::function<int64_t(const Node&)> count, void (*build)(LoopBuilder&, const AttrsType&, int64_t)) {
  OpDef op = ops::define(handle, FusionClass::kOpaque, LayoutBehaviour::kNone, std::move(inputs));
  op.infer = [count](const Node& node, Function&) { return vector_type(count(node)); };
  op.compute = [build, name = op.name](const Node& node, const std::vector<Tensor>& in) {
    const int64_t entries = input_type(node, in.size() == 1 ? 0 : in.size() - 1).shape[0].value();
    auto attrs = node.attrs_as<AttrsType>();
    auto body = [=](LoopBuilder& b) { build(b, attrs, entries); };
    return extern_kernel(in, {ops::result_shape(node)}, {DType::kI64}, body, name);
  };
  set.add(std::move(op));
}

Buffer local_extents(LoopBuilder& b, const Shape& extents) {
  const auto rank = static_cast<int64_t>(extents.size());
  Buffer local = b.local("extents", DType::kI64, std::max<int64_t>(rank, 1));
  for (int64_t a = 0; a < rank; ++a) b.emit(store(local, a, Expr(extents[static_cast<size_t>(a)])));
  return local;
}

void build_slice_bounds(LoopBuilder& b, const ExtentsAttrs& attrs, const Expr& entries) {
  // Steps beyond any extent mean the same as these.
  constexpr int64_t kLongest = int64_t{1} << 40;
  const auto rank = static_cast<int64_t>(attrs.extents.size());
  const Buffer extents = local_extents(b, attrs.extents);
  for (int64_t a = 0; a < rank; ++a) {
    b.emit(store(b.result(0), a, Expr(0)));
    b.emit(store(b.result(0), rank + a, Expr(attrs.extents[static_cast<size_t>(a)])));
    b.emit(store(b.result(0), 2 * rank + a, Expr(1)));
  }
  if (rank == 0) return;
  b.loop("k", entries, [&](const Expr& k) {
    b.let("axis", ops::axis_at(b.input(2), k, rank), [&](const Expr& axis) {
      b.let("extent", load(extents, axis), [&](const Expr& extent) {
        b.let("step", within(load(b.input(3), k), -kLongest, kLongest), [&](const Expr& step) {
          const Expr forward = lt(Expr(0), step);
          const Expr high = select(forward, extent, extent - 1), low = select(forward, Expr(0), Expr(-1));
          const Expr from = load(b.input(0), k), to = load(b.input(1), k);
          // Before the first element a range can end, but not begin.
          b.let("first", within(if_negative(from, from + extent), 0, high), [&](const Expr& first) {
            b.let("end", within(if_negative(to, to + extent), low, high), [&](const Expr& end) {
              const Expr length = select(forward, end - first, first - end);
              const Expr stride = max(select(forward, step, -step), Expr(1)), named = load(b.input(2), k);
              const Expr wrong = eq(step, Expr(0)) || lt(named, Expr(-rank)) || le(Expr(rank), named);
              const Expr count = floordiv(max(length, Expr(0)) + stride - 1, stride);
              b.emit(store(b.result(0), axis, max(first, Expr(0))));
              b.emit(store(b.result(0), axis + rank, select(wrong, Expr(-1), count)));
              b.emit(store(b.result(0), axis + 2 * rank, step));
            });
          });
        });
      });
    });
  });
}

void build_unsqueeze_dims(LoopBuilder& b, const ExtentsAttrs& attrs, int64_t entries) {
  const auto rank = static_cast<int64_t>(attrs.extents.size()), all = rank + entries;
  const Buffer extents = local_extents(b, attrs.extents), next = b.local("next", DType::kI64, 1);
  b.loop("axis", all, [&](const Expr& axis) { b.emit(store(b.result(0), axis, Expr(0))); });
  b.loop("k", entries,
         [&](const Expr& k) { b.emit(store(b.result(0), ops::axis_at(b.input(0), k, all), Expr(1))); });
  b.emit(store(next, 0, Expr(0)));
  if (rank == 0) return;
  b.loop("axis", all, [&](const Expr& axis) {
    b.when(eq(load(b.result(0), axis), Expr(0)), [&] {
      b.emit(store(b.result(0), axis, load(extents, within(load(next, 0), 0, rank - 1))));
      b.emit(store(next, 0, load(next, 0) + 1));
    });
  });
}

void build_pad_amounts(LoopBuilder& b, const ExtentsAttrs& attrs, int64_t entries) {
  const auto rank = static_cast<int64_t>(attrs.extents.size());
  b.loop("axis", 2 * rank, [&](const Expr& axis) { b.emit(store(b.result(0), axis, Expr(0))); });
  if (rank == 0) return;
  b.loop("k", entries, [&](const Expr& k) {
    b.let("axis", ops::axis_at(b.input(1), k, rank), [&](const Expr& axis) {
      b.emit(store(b.result(0), axis, load(b.input(0), k)));
      b.emit(store(b.result(0), axis + rank, load(b.input(0), k + entries)));
    });
  });
}

// --- nonzero_positions

void build_nonzero(LoopBuilder& b, const std::vector<Expr>& extents, const Expr& count, DType dtype) {
  const Buffer found = b.local("found", DType::kI64, 1);
  Expr total = 1;
  for (const Expr& extent : extents) total = total * extent;
  b.emit(store(found, 0, Expr(0)));
  b.loop("i", total, [&](const Expr& i) {
    // The count was taken of the same elements: the second condition never fails.
    const Expr is_set = ne(ops::widen(load(b.input(0), i)), const_of(ops::widened(dtype), 0));
    b.when(is_set && lt(load(found, 0), count), [&] {
      Expr rest = i;
      for (size_t d = extents.size(); d-- > 0;) {
        const Expr place = Expr(static_cast<int64_t>(d)) * count + load(found, 0);
        b.emit(store(b.result(0), place, d == 0 ? rest : mod(rest, extents[d])));
        rest = floordiv(rest, extents[d]);
      }
      b.emit(store(found, 0, load(found, 0) + 1));
    });
  });
}

void add_nonzero(OpSet& set) {
  OpDef op = ops::define(op::nonzero_positions, FusionClass::kOpaque, LayoutBehaviour::kNone, {"data"});
  op.infer = [](const Node& node, Function&) {
    const Shape& extents = node.attrs_as<ExtentsAttrs>().extents;
    ops::require(extents.size() == 1, "there should be one count");
    return std::vector<TensorType>{{DType::kI64, {input_type(node, 0).rank(), extents[0]}}};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const Expr count(node.attrs_as<ExtentsAttrs>().extents[0]);
    auto body = [shape = in[0].shape(), count, dtype = in[0].dtype()](LoopBuilder& b) {
      build_nonzero(b, shape, count, dtype);
    };
    return extern_kernel({in[0]}, {ops::result_shape(node)}, {DType::kI64}, body, "nonzero_positions");
  };
  set.add(std::move(op));
}

int64_t rank_of(const Shape& extents) {
  return static_cast<int64_t>(extents.size());
}

void add_slice_bounds(OpSet& set) {
  OpDef op = ops::define(op::slice_bounds, FusionClass::kOpaque, LayoutBehaviour::kNone,
                         {"starts", "ends", "axes", "steps"});
  op.infer = [](const Node& node, Function& function) {
    for (size_t i = 0; i < 4; ++i) {
      const TensorType& list = input_type(node, i);
      ops::require(list.dtype == DType::kI64 && list.rank() == 1, "input {} should be an i64 vector, not {}",
                   i, list.str());
      ops::unify(input_type(node, 0).shape[0], list.shape[0], function, node, "starts, ends, axes and steps");
    }
    return vector_type(3 * rank_of(node.attrs_as<ExtentsAttrs>().extents));
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const auto body = [attrs = node.attrs_as<ExtentsAttrs>(), entries = in[0].shape()[0]](LoopBuilder& b) {
      build_slice_bounds(b, attrs, entries);
    };
    return extern_kernel(in, {ops::result_shape(node)}, {DType::kI64}, body, "slice_bounds");
  };
  set.add(std::move(op));
}

}  // namespace

void add_shape_data_ops(OpSet& set) {
  OpDef reshape = ops::define(op::reshape_dims, FusionClass::kOpaque, LayoutBehaviour::kNone, {"shape"});
  reshape.infer = [](const Node& node, Function&) { return vector_type(require_vector(node, 0)); };
  reshape.compute = compute_reshape_dims;
  set.add(std::move(reshape));
  add_slice_bounds(set);
  add_nest<ExtentsAttrs>(
      set, op::unsqueeze_dims, {"axes"},
      [](const Node& node) { return rank_of(node.attrs_as<ExtentsAttrs>().extents) + require_vector(node, 0); },
      build_unsqueeze_dims);
  add_nest<ExtentsAttrs>(
      set, op::pad_amounts, {"pads", "axes"},
      [](const Node& node) {
        ops::require(require_vector(node, 0) == 2 * require_vector(node, 1), "pads has {} entries for {} axes",
                     require_vector(node, 0), require_vector(node, 1));
        return 2 * rank_of(node.attrs_as<ExtentsAttrs>().extents);
      },
      build_pad_amounts);
  add_nonzero(set);
}

}  // namespace gantry
