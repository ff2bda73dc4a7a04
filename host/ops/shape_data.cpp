#include "host/ops/shape_data.h"

#include "host/loops/stmt.h"
#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;

/// Inputs are vectors of i64 of known lengths.
int64_t require_vector(const Node& node, size_t i) {
  const TensorType& x = input_type(node, i);
  ops::require(x.dtype == DType::kI64 && x.rank() == 1 && x.shape[0].is_constant(),
               "input {} should be an i64 vector of a known length, not {}", i, x.str());
  return x.shape[0].value();
}

std::vector<TensorType> vector_type(int64_t count) {
  return {{DType::kI64, {count}}};
}

Expr if_negative(const Expr& x, const Expr& then) {
  return select(lt(x, Expr(0)), then, x);
}

Expr within(const Expr& x, const Expr& low, const Expr& high) {
  return min(max(x, low), high);
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
    return extern_kernel(in, {to_exprs(node.result()->type.shape)}, {DType::kI64}, body, name);
  };
  set.add(std::move(op));
}

/// The axis that entry `k` of the list names, inside the tensor whatever it says.
Expr axis_at(const Buffer& axes, const Expr& k, int64_t rank) {
  return ops::clamped_position(load(axes, k), rank);
}

Buffer local_extents(LoopBuilder& b, const Shape& extents) {
  const auto rank = static_cast<int64_t>(extents.size());
  Buffer local = b.local("extents", DType::kI64, std::max<int64_t>(rank, 1));
  for (int64_t a = 0; a < rank; ++a) b.emit(store(local, a, Expr(extents[static_cast<size_t>(a)])));
  return local;
}

void build_slice_bounds(LoopBuilder& b, const ExtentsAttrs& attrs, int64_t entries) {
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
    b.let("axis", axis_at(b.input(2), k, rank), [&](const Expr& axis) {
      b.let("extent", load(extents, axis), [&](const Expr& extent) {
        b.let("step", within(load(b.input(3), k), -kLongest, kLongest), [&](const Expr& step) {
          const Expr forward = lt(Expr(0), step);
          const Expr high = select(forward, extent, extent - 1), low = select(forward, Expr(0), Expr(-1));
          const Expr from = load(b.input(0), k), to = load(b.input(1), k);
          // Before the first element a range can end, but not begin.
          b.let("first", within(if_negative(from, from + extent), 0, high), [&](const Expr& first) {
            b.let("end", within(if_negative(to, to + extent), low, high), [&](const Expr& end) {
              const Expr length = select(forward, end - first, first - end);
              const Expr stride = max(select(forward, step, -step), Expr(1));
              b.emit(store(b.result(0), axis, max(first, Expr(0))));
              b.emit(store(b.result(0), axis + rank, floordiv(max(length, Expr(0)) + stride - 1, stride)));
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
  b.loop("k", entries, [&](const Expr& k) { b.emit(store(b.result(0), axis_at(b.input(0), k, all), Expr(1))); });
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
    b.let("axis", axis_at(b.input(1), k, rank), [&](const Expr& axis) {
      b.emit(store(b.result(0), axis, load(b.input(0), k)));
      b.emit(store(b.result(0), axis + rank, load(b.input(0), k + entries)));
    });
  });
}

/// Fills an axes_table.
class TableBuilder {
 public:
  TableBuilder(LoopBuilder& b, const AxesTableAttrs& attrs, int64_t entries)
      : b_(b),
        attrs_(attrs),
        entries_(entries),
        rank_(static_cast<int64_t>(attrs.extents.size())),
        named_(b.local("named", DType::kI64, std::max<int64_t>(rank_, 1))),
        place_(b.local("place", DType::kI64, std::max<int64_t>(rank_, 1))),
        counters_(b.local("counters", DType::kI64, 2)) {}

  void build() {
    for (int64_t a = 0; a < rank_; ++a) b_.emit(store(named_, a, Expr(0)));
    if (rank_ > 0)
      b_.loop("k", entries_, [&](const Expr& k) { b_.emit(store(named_, axis_at(b_.input(0), k, rank_), Expr(1))); });
    put(next(), Expr(0));
    put_result_dims();
    for (const bool named : {false, true}) put_axes(named);
    put_strides_in_matrix();
  }

 private:
  // counters_: the next place, and products.
  static Expr next() { return 0; }
  static Expr product() { return 1; }
  Expr counter(const Expr& which) const { return load(counters_, which); }
  void put(const Expr& which, const Expr& value) { b_.emit(store(counters_, which, value)); }
  Expr extent(int64_t a) const { return Expr(attrs_.extents[static_cast<size_t>(a)]); }
  Expr is_named(int64_t a) const { return ne(load(named_, a), Expr(0)); }

  void put_result_dims() {
    const int64_t first = 3 * rank_ + 2, count = attrs_.keepdims ? rank_ : rank_ - entries_;
    for (int64_t i = 0; i < count; ++i) b_.emit(store(b_.result(0), first + i, Expr(1)));
    for (int64_t a = 0; a < rank_ && count > 0; ++a) {
      if (attrs_.keepdims) {
        b_.emit(store(b_.result(0), first + a, select(is_named(a), Expr(1), extent(a))));
        continue;
      }
      b_.when(logical_not(is_named(a)), [&] {
        b_.emit(store(b_.result(0), first + within(counter(next()), 0, count - 1), extent(a)));
        put(next(), counter(next()) + 1);
      });
    }
    put(next(), Expr(0));
  }

  /// The axes that are named, or those that are not, at the next places.
  void put_axes(bool named) {
    put(product(), Expr(1));
    Expr inner = 1;
    std::vector<Expr> strides(static_cast<size_t>(rank_));
    for (int64_t a = rank_; a-- > 0;) {
      strides[static_cast<size_t>(a)] = inner;
      inner = inner * extent(a);
    }
    for (int64_t a = 0; a < rank_; ++a) {
      b_.when(named ? is_named(a) : logical_not(is_named(a)), [&] {
        b_.let("at", within(counter(next()), 0, rank_ - 1), [&](const Expr& at) {
          b_.emit(store(b_.result(0), at, extent(a)));
          b_.emit(store(b_.result(0), at + rank_, strides[static_cast<size_t>(a)]));
          b_.emit(store(place_, a, at));
        });
        put(next(), counter(next()) + 1);
        put(product(), counter(product()) * extent(a));
      });
    }
    b_.emit(store(b_.result(0), 3 * rank_ + (named ? 1 : 0), counter(product())));
  }

  void put_strides_in_matrix() {
    if (rank_ == 0) return;
    const Buffer by_place = b_.local("by_place", DType::kI64, rank_);
    put(product(), Expr(1));
    for (int64_t at = rank_; at-- > 0;) {
      b_.emit(store(by_place, at, counter(product())));
      put(product(), counter(product()) * load(b_.result(0), at));
    }
    for (int64_t a = 0; a < rank_; ++a)
      b_.emit(store(b_.result(0), 2 * rank_ + a, load(by_place, load(place_, a))));
  }

  LoopBuilder& b_;
  const AxesTableAttrs& attrs_;
  int64_t entries_, rank_;
  Buffer named_, place_, counters_;
};

// --- matrices

void add_to_matrix(OpSet& set) {
  OpDef op = ops::define(op::to_matrix, FusionClass::kInjective, LayoutBehaviour::kNone, {"data", "table"});
  op.infer = [](const Node& node, Function&) {
    const auto& a = node.attrs_as<ToMatrixAttrs>();
    ops::require(input_type(node, 0).rank() == 1, "the data {} should be a vector", input_type(node, 0).str());
    ops::require(a.rank >= 0 && require_vector(node, 1) >= 2 * a.rank, "the table {} is too short",
                 input_type(node, 1).str());
    return std::vector<TensorType>{{input_type(node, 0).dtype, {a.rows, a.columns}}};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const auto a = node.attrs_as<ToMatrixAttrs>();
    auto body = [&](const std::vector<Expr>& i) {
      Expr flat = i[0] * Expr(a.columns) + i[1], offset = 0;
      for (int64_t at = a.rank; at-- > 0;) {
        const Expr extent = max(in[1]({Expr(at)}), Expr(1));
        offset = offset + mod(flat, extent) * in[1]({Expr(at + a.rank)});
        flat = floordiv(flat, extent);
      }
      return in[0]({within(offset, 0, in[0].shape()[0] - 1)});
    };
    return std::vector<Tensor>{compute({Expr(a.rows), Expr(a.columns)}, body, "to_matrix")};
  };
  set.add(std::move(op));
}

void add_from_matrix(OpSet& set) {
  OpDef op = ops::define(op::from_matrix, FusionClass::kInjective, LayoutBehaviour::kNone, {"data", "table"});
  op.infer = [](const Node& node, Function&) {
    const Shape& extents = node.attrs_as<ExtentsAttrs>().extents;
    ops::require(input_type(node, 0).rank() == 1, "the data {} should be a vector", input_type(node, 0).str());
    ops::require(require_vector(node, 1) >= 3 * static_cast<int64_t>(extents.size()), "the table {} is too short",
                 input_type(node, 1).str());
    return std::vector<TensorType>{{input_type(node, 0).dtype, extents}};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const Shape& extents = node.attrs_as<ExtentsAttrs>().extents;
    auto body = [&](const std::vector<Expr>& i) {
      Expr offset = 0;
      const auto rank = static_cast<int64_t>(i.size());
      for (int64_t a = 0; a < rank; ++a)
        offset = offset + i[static_cast<size_t>(a)] * in[1]({Expr(2 * rank + a)});
      return in[0]({within(offset, 0, in[0].shape()[0] - 1)});
    };
    return std::vector<Tensor>{compute(to_exprs(extents), body, "from_matrix")};
  };
  set.add(std::move(op));
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
    return extern_kernel({in[0]}, {to_exprs(node.result()->type.shape)}, {DType::kI64}, body, "nonzero_positions");
  };
  set.add(std::move(op));
}

int64_t rank_of(const Shape& extents) {
  return static_cast<int64_t>(extents.size());
}

}  // namespace

void add_shape_data_ops(OpSet& set) {
  OpDef reshape = ops::define(op::reshape_dims, FusionClass::kOpaque, LayoutBehaviour::kNone, {"shape"});
  reshape.infer = [](const Node& node, Function&) { return vector_type(require_vector(node, 0)); };
  reshape.compute = compute_reshape_dims;
  set.add(std::move(reshape));
  add_nest<ExtentsAttrs>(
      set, op::slice_bounds, {"starts", "ends", "axes", "steps"},
      [](const Node& node) {
        const int64_t count = require_vector(node, 0);
        for (size_t i = 1; i < 4; ++i)
          ops::require(require_vector(node, i) == count, "starts, ends, axes and steps differ in length");
        return 3 * rank_of(node.attrs_as<ExtentsAttrs>().extents);
      },
      build_slice_bounds);
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
  add_nest<AxesTableAttrs>(
      set, op::axes_table, {"axes"},
      [](const Node& node) {
        const auto& attrs = node.attrs_as<AxesTableAttrs>();
        const int64_t rank = rank_of(attrs.extents), named = require_vector(node, 0);
        ops::require(named <= rank, "{} axes of a tensor of rank {}", named, rank);
        return 3 * rank + 2 + (attrs.keepdims ? rank : rank - named);
      },
      [](LoopBuilder& b, const AxesTableAttrs& attrs, int64_t entries) { TableBuilder(b, attrs, entries).build(); });
  add_to_matrix(set);
  add_from_matrix(set);
  add_nonzero(set);
}

}  // namespace gantry
