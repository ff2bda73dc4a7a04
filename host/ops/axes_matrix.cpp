// Tensors as matrices whose columns run over axes that are data.
#include "host/ops/families.h"
#include "host/ops/index_lists.h"
#include "host/ops/shape_data.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require_vector;
using ops::within;

/// Fills an axes_table.
class TableBuilder {
 public:
  /// `entries`: of the list; `dims`: those of the reduced tensor.
  TableBuilder(LoopBuilder& b, const AxesTableAttrs& attrs, Expr entries, int64_t dims)
      : b_(b),
        attrs_(attrs),
        entries_(std::move(entries)),
        dims_(dims),
        rank_(static_cast<int64_t>(attrs.extents.size())),
        named_(b.local("named", DType::kI64, std::max<int64_t>(rank_, 1))),
        place_(b.local("place", DType::kI64, std::max<int64_t>(rank_, 1))),
        counters_(b.local("counters", DType::kI64, 2)) {}

  void build() {
    for (int64_t a = 0; a < rank_; ++a) b_.emit(store(named_, a, Expr(0)));
    if (rank_ > 0)
      b_.loop("k", entries_,
              [&](const Expr& k) { b_.emit(store(named_, ops::axis_at(b_.input(0), k, rank_), Expr(1))); });
    if (attrs_.all_if_empty) {
      b_.when(eq(entries_, Expr(0)), [&] {
        for (int64_t a = 0; a < rank_; ++a) b_.emit(store(named_, a, Expr(1)));
      });
    }
    put(next(), Expr(0));
    put_result_dims();
    put_axes(false);
    // A number of rows that no tensor has: the reduced tensor would have another rank.
    if (!attrs_.keepdims)
      b_.when(ne(counter(next()), Expr(dims_)), [&] { b_.emit(store(b_.result(0), 3 * rank_, Expr(-1))); });
    put_axes(true);
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
    const int64_t first = 3 * rank_ + 2, count = dims_;
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
  Expr entries_;
  int64_t dims_, rank_;
  Buffer named_, place_, counters_;
};

/// Dimensions of the reduced tensor.
int64_t reduced_rank(const Node& node) {
  const auto& attrs = node.attrs_as<AxesTableAttrs>();
  const auto rank = static_cast<int64_t>(attrs.extents.size());
  if (attrs.keepdims) return rank;
  return attrs.reduced_rank >= 0 ? attrs.reduced_rank : rank - require_vector(node, 0);
}

void add_axes_table(OpSet& set) {
  OpDef op = ops::define(op::axes_table, FusionClass::kOpaque, LayoutBehaviour::kNone, {"axes"});
  op.infer = [](const Node& node, Function&) {
    const auto& attrs = node.attrs_as<AxesTableAttrs>();
    const TensorType& axes = input_type(node, 0);
    const auto rank = static_cast<int64_t>(attrs.extents.size());
    ops::require(axes.dtype == DType::kI64 && axes.rank() == 1, "the axes {} should be an i64 vector",
                 axes.str());
    ops::require(!axes.shape[0].is_constant() || axes.shape[0].value() <= rank,
                 "{} axes of a tensor of rank {}", axes.shape[0].str(), rank);
    ops::require(attrs.reduced_rank <= rank, "{} dimensions are left of {}", attrs.reduced_rank, rank);
    return std::vector<TensorType>{{DType::kI64, {3 * rank + 2 + reduced_rank(node)}}};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const auto body = [attrs = node.attrs_as<AxesTableAttrs>(), entries = in[0].shape()[0],
                       dims = reduced_rank(node)](LoopBuilder& b) {
      TableBuilder(b, attrs, entries, dims).build();
    };
    return extern_kernel(in, {ops::result_shape(node)}, {DType::kI64}, body, "axes_table");
  };
  set.add(std::move(op));
}

// --- matrices

void add_to_matrix(OpSet& set) {
  OpDef op = ops::define(op::to_matrix, FusionClass::kInjective, LayoutBehaviour::kNone, {"data", "table"});
  op.infer = [](const Node& node, Function&) {
    const auto& a = node.attrs_as<ToMatrixAttrs>();
    ops::require(input_type(node, 0).rank() == 1, "the data {} should be a vector",
                 input_type(node, 0).str());
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
    ops::require(input_type(node, 0).rank() == 1, "the data {} should be a vector",
                 input_type(node, 0).str());
    ops::require(require_vector(node, 1) >= 3 * static_cast<int64_t>(extents.size()),
                 "the table {} is too short", input_type(node, 1).str());
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

}  // namespace

void add_axes_matrix_ops(OpSet& set) {
  add_axes_table(set);
  add_to_matrix(set);
  add_from_matrix(set);
}

}  // namespace gantry
