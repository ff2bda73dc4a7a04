#include "host/ops/selection.h"

#include <array>
#include <functional>

#include "host/loops/stmt.h"
#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;

// --- non_max_suppression

/// A box: its corners, lower ones first, and its area.
struct Box {
  static constexpr int64_t kNumbers = 5;
  std::array<Expr, kNumbers> numbers;  ///< y0, x0, y1, x1, area
  const Expr& at(int64_t i) const { return numbers[static_cast<size_t>(i)]; }
  const Expr& area() const { return at(4); }
};

/// Each box that counts is compared with those that were taken before it, a block of them at once, until one
/// overlaps it. The numbers of those that were taken lie apart from each other, each in its own row of
/// `found_`, so that a block of them is a vector; what the last block has beyond them are empty boxes, which
/// overlap nothing.
class Suppression {
 public:
  Suppression(LoopBuilder& b, bool centred, const std::vector<Expr>& scores_shape)
      : b_(b),
        centred_(centred),
        batches_(scores_shape[0]),
        classes_(scores_shape[1]),
        boxes_(scores_shape[2]),
        room_(blocks_of(boxes_) * kBlock),
        mine_(b.local("mine", DType::kF32, Box::kNumbers)),
        hits_(b.local("hits", DType::kI32, kBlock)),
        taken_(b.local("taken", DType::kI64, 1)),
        begin_(b.local("begin", DType::kI64, 1)),
        free_(b.local("free", DType::kI64, 1)),
        found_(b.scratch("found", DType::kF32, room_ * Box::kNumbers)) {}

  void build() {
    b_.emit(store(taken_, 0, Expr(0)));
    b_.loop("batch", batches_, [&](const Expr& batch) {
      b_.loop("class", classes_, [&](const Expr& kind) { one_class(batch, kind); });
    });
    b_.emit(store(b_.result(1), 0, load(taken_, 0)));
  }

 private:
  static constexpr int64_t kBlock = 16;
  static Expr blocks_of(const Expr& boxes) { return floordiv(boxes + (kBlock - 1), kBlock); }

  void one_class(const Expr& batch, const Expr& kind) {
    b_.emit(store(begin_, 0, load(taken_, 0)));
    b_.loop("k", boxes_, [&](const Expr& k) {
      const Expr place = (batch * classes_ + kind) * boxes_ + k;
      const Expr counts = lt(load(b_.input(5), 0), load(b_.input(2), place));
      const Expr wanted = lt(load(taken_, 0) - load(begin_, 0), load(b_.input(3), 0));
      b_.when(counts && wanted, [&] {
        b_.let("box", ops::clamped_position(load(b_.input(1), place), boxes_),
               [&](const Expr& box) { offer(batch, kind, box); });
      });
    });
  }

  void offer(const Expr& batch, const Expr& kind, const Expr& box) {
    read(batch, box);
    b_.emit(store(free_, 0, Expr(1)));
    b_.let("before", load(taken_, 0) - load(begin_, 0), [&](const Expr& before) {
      b_.loop("block", blocks_of(before), [&](const Expr& block) {
        b_.when(ne(load(free_, 0), Expr(0)), [&] { compare(block * kBlock); });
      });
      b_.when(ne(load(free_, 0), Expr(0)), [&] { take(batch, kind, box, before); });
    });
  }

  void take(const Expr& batch, const Expr& kind, const Expr& box, const Expr& before) {
    const Expr row = load(taken_, 0) * 3;
    b_.emit(store(b_.result(0), row, batch));
    b_.emit(store(b_.result(0), row + 1, kind));
    b_.emit(store(b_.result(0), row + 2, box));
    b_.emit(store(taken_, 0, load(taken_, 0) + 1));
    b_.when(eq(mod(before, kBlock), Expr(0)), [&] {
      for (int64_t i = 0; i < Box::kNumbers; ++i) {
        const auto clear = [&](const Expr& lane) {
          b_.emit(store(found_, room_ * i + before + lane, float_imm(DType::kF32, 0)));
        };
        b_.loop("lane", kBlock, clear, LoopKind::kVectorized);
      }
    });
    for (int64_t i = 0; i < Box::kNumbers; ++i) b_.emit(store(found_, room_ * i + before, load(mine_, i)));
  }

  void read(const Expr& batch, const Expr& box) {
    const auto given = [&](int64_t i) { return load(b_.input(0), (batch * boxes_ + box) * 4 + i); };
    const auto put = [&](int64_t i, const Expr& value) { b_.emit(store(mine_, i, value)); };
    const Expr half = float_imm(DType::kF32, 0.5);
    for (int64_t axis = 0; axis < 2; ++axis) {  // y, then x
      if (centred_) {
        put(axis, given(1 - axis) - given(3 - axis) * half);
        put(axis + 2, given(1 - axis) + given(3 - axis) * half);
      } else {
        put(axis, min(given(axis), given(axis + 2)));
        put(axis + 2, max(given(axis), given(axis + 2)));
      }
    }
    put(4, (load(mine_, 2) - load(mine_, 0)) * (load(mine_, 3) - load(mine_, 1)));
  }

  /// The box is not free any more if it overlaps one of the block that begins at `first`.
  void compare(const Expr& first) {
    const auto each = [&](int64_t count, const std::function<Expr(const Expr&)>& hit) {
      b_.loop(
          "lane", count, [&](const Expr& lane) { b_.emit(store(hits_, lane, hit(lane))); },
          LoopKind::kVectorized);
    };
    const Box mine = box_of([&](int64_t i) { return load(mine_, i); });
    each(kBlock, [&](const Expr& lane) {
      const Box other = box_of([&](int64_t i) { return load(found_, room_ * i + first + lane); });
      return select(overlap(mine, other), int_imm(DType::kI32, 1), int_imm(DType::kI32, 0));
    });
    for (int64_t half = kBlock / 2; half > 0; half /= 2)
      each(half, [&](const Expr& lane) { return max(load(hits_, lane), load(hits_, lane + half)); });
    b_.when(ne(load(hits_, 0), int_imm(DType::kI32, 0)), [&] { b_.emit(store(free_, 0, Expr(0))); });
  }

  static Box box_of(const std::function<Expr(int64_t)>& number) {
    Box box;
    for (int64_t i = 0; i < Box::kNumbers; ++i) box.numbers[static_cast<size_t>(i)] = number(i);
    return box;
  }

  /// Whether intersection over union of the two boxes is above the limit. Empty boxes overlap nothing.
  Expr overlap(const Box& a, const Box& b) const {
    const Expr none = float_imm(DType::kF32, 0);
    const auto length = [&](int64_t axis) {
      return max(min(a.at(axis + 2), b.at(axis + 2)) - max(a.at(axis), b.at(axis)), none);
    };
    const Expr both = length(0) * length(1), either = a.area() + b.area() - both;
    return lt(none, both) && lt(none, either) && lt(load(b_.input(4), 0), both / either);
  }

  LoopBuilder& b_;
  bool centred_;
  Expr batches_, classes_, boxes_, room_;  ///< room_: of a row of found_, whole blocks
  Buffer mine_, hits_, taken_, begin_, free_;
  Buffer found_;  ///< those taken of the batch and class: a row for each number of a box
};

std::vector<TensorType> infer_nms(const Node& node, Function& function) {
  const TensorType &boxes = input_type(node, 0), &order = input_type(node, 1), &scores = input_type(node, 2);
  ops::require_dtype(boxes.dtype == DType::kF32, boxes.dtype);
  ops::require(boxes.rank() == 3 && !provably_different(boxes.shape[2], 4), "boxes should be (batch, boxes, 4), not {}",
               boxes.str());
  ops::unify(boxes.shape[2], 4, function, node, "numbers of a box");
  ops::require(scores.rank() == 3 && scores.dtype == DType::kF32, "scores should be f32 (batch, classes, boxes), not {}",
               scores.str());
  ops::require(order.dtype == DType::kI64 && order.rank() == 3, "the order should be i64 of three dimensions, not {}",
               order.str());
  ops::unify(boxes.shape[0], scores.shape[0], function, node, "batches");
  ops::unify(boxes.shape[1], scores.shape[2], function, node, "boxes");
  for (size_t i = 0; i < 3; ++i) ops::unify(order.shape[i], scores.shape[i], function, node, "order and scores");
  const DType limits[] = {DType::kI64, DType::kF32, DType::kF32};
  for (size_t i = 0; i < 3; ++i) {
    ops::require(input_type(node, 3 + i).dtype == limits[i] && !provably_different(element_count(input_type(node, 3 + i).shape), 1),
                 "limit {} should be one {}, not {}", i, name_of(limits[i]), input_type(node, 3 + i).str());
    ops::unify(element_count(input_type(node, 3 + i).shape), 1, function, node, "limits");
  }
  return {{DType::kI64, {element_count(scores.shape), 3}}, {DType::kI64, {1}}};
}

void add_nms(OpSet& set) {
  OpDef op = ops::define(op::non_max_suppression, FusionClass::kOpaque, LayoutBehaviour::kNone,
                         {"boxes", "order", "scores", "most", "overlap", "least"});
  op.keeps_types = true;
  op.infer = infer_nms;
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const bool centred = node.attrs_as<NmsAttrs>().centred;
    auto body = [centred, shape = in[2].shape()](LoopBuilder& b) { Suppression(b, centred, shape).build(); };
    return extern_kernel(in, {to_exprs(node.results[0]->type.shape), {1}}, {DType::kI64, DType::kI64}, body,
                         "non_max_suppression");
  };
  set.add(std::move(op));
}

// --- equal rows

/// Compares rows of a matrix element by element.
class Rows {
 public:
  Rows(LoopBuilder& b, const Tensor& rows)
      : b_(b), dtype_(rows.dtype()), count_(rows.shape()[0]), columns_(rows.shape()[1]), sign_(b.local("sign", DType::kI64, 1)) {}

  const Expr& count() const { return count_; }
  /// Leaves in sign() -1, 0 or 1: row `i` comes before, is equal to, or comes after row `j`.
  void compare(const Expr& i, const Expr& j) {
    b_.emit(store(sign_, 0, Expr(0)));
    b_.loop("column", columns_, [&](const Expr& column) {
      b_.when(eq(sign(), Expr(0)), [&] {
        const Expr x = ops::widen(load(b_.input(0), i * columns_ + column));
        const Expr y = ops::widen(load(b_.input(0), j * columns_ + column));
        b_.emit(store(sign_, 0, select(before(x, y), Expr(-1), select(before(y, x), Expr(1), Expr(0)))));
      });
    });
  }
  Expr sign() const { return load(sign_, 0); }

 private:
  /// NaN comes after every number and is equal to NaN, as topk has it: an order of all elements.
  Expr before(const Expr& x, const Expr& y) const {
    if (!is_float(dtype_)) return lt(x, y);
    const auto is_nan = [](const Expr& e) { return call(MathFn::kIsNan, {e}); };
    return lt(x, y) || (is_nan(y) && logical_not(is_nan(x)));
  }

  LoopBuilder& b_;
  DType dtype_;
  Expr count_, columns_;
  Buffer sign_;
};

void require_rows(const Node& node) {
  ops::require(input_type(node, 0).rank() == 2, "rows should be of a matrix, not {}", input_type(node, 0).str());
}

void add_row_order(OpSet& set) {
  OpDef op = ops::define(op::row_order, FusionClass::kOpaque, LayoutBehaviour::kNone, {"rows"});
  op.infer = [](const Node& node, Function&) {
    require_rows(node);
    return std::vector<TensorType>{{DType::kI64, {input_type(node, 0).shape[0]}}};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    auto body = [x = in[0]](LoopBuilder& b) {
      Rows rows(b, x);
      const Buffer place = b.local("place", DType::kI64, 1);
      b.loop("i", rows.count(), [&](const Expr& i) {
        b.emit(store(place, 0, Expr(0)));
        b.loop("j", rows.count(), [&](const Expr& j) {
          rows.compare(j, i);
          const Expr first = lt(rows.sign(), Expr(0)) || (eq(rows.sign(), Expr(0)) && lt(j, i));
          b.when(first, [&] { b.emit(store(place, 0, load(place, 0) + 1)); });
        });
        b.emit(store(b.result(0), load(place, 0), i));
      });
    };
    return extern_kernel(in, {ops::result_shape(node)}, {DType::kI64}, body, "row_order");
  };
  set.add(std::move(op));
}

void build_row_groups(LoopBuilder& b, const Tensor& x) {
  Rows rows(b, x);
  const Buffer group = b.local("group", DType::kI64, 1);
  const auto row = [&](const Expr& k) { return ops::clamped_position(load(b.input(1), k), rows.count()); };
  b.emit(store(group, 0, Expr(-1)));
  b.loop("k", rows.count(), [&](const Expr& k) {
    b.let("row", row(k), [&](const Expr& here) {
      b.let("previous", row(max(k - 1, Expr(0))), [&](const Expr& previous) {
        rows.compare(previous, here);
        b.when(eq(k, Expr(0)) || ne(rows.sign(), Expr(0)), [&] {
          b.emit(store(group, 0, load(group, 0) + 1));
          b.emit(store(b.result(0), load(group, 0), here));
          b.emit(store(b.result(1), load(group, 0), Expr(0)));
        });
        b.emit(store(b.result(1), load(group, 0), load(b.result(1), load(group, 0)) + 1));
        b.emit(store(b.result(2), here, load(group, 0)));
      });
    });
  });
  b.emit(store(b.result(3), 0, load(group, 0) + 1));
}

void add_row_groups(OpSet& set) {
  OpDef op = ops::define(op::row_groups, FusionClass::kOpaque, LayoutBehaviour::kNone, {"rows", "order"});
  op.infer = [](const Node& node, Function& function) {
    require_rows(node);
    const TensorType& order = input_type(node, 1);
    ops::require(order.dtype == DType::kI64 && order.rank() == 1, "the order should be an i64 vector, not {}", order.str());
    const Dim count = ops::unify(input_type(node, 0).shape[0], order.shape[0], function, node, "rows and order");
    const TensorType each{DType::kI64, {count}};
    return std::vector<TensorType>{each, each, each, {DType::kI64, {1}}};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const std::vector<Expr> each = ops::result_shape(node);
    auto body = [x = in[0]](LoopBuilder& b) { build_row_groups(b, x); };
    return extern_kernel(in, {each, each, each, {1}}, std::vector<DType>(4, DType::kI64), body, "row_groups");
  };
  set.add(std::move(op));
}

}  // namespace

void add_selection_ops(OpSet& set) {
  add_nms(set);
  add_row_order(set);
  add_row_groups(set);
}

}  // namespace gantry
