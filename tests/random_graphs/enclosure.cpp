#include "tests/random_graphs/enclosure.h"

#include <algorithm>
#include <cmath>

#include "host/support/error.h"
#include "host/tensor/element.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplify.h"

namespace gantry::random_graphs {
namespace {

Element whole(int64_t value, bool known, bool fixed) {
  Element e;
  e.whole = value;
  e.known = known;
  e.fixed = fixed;
  return e;
}
Element number(Interval value, bool fixed) {
  Element e;
  e.number = value;
  e.fixed = fixed;
  return e;
}

int64_t extent_of(const Expr& e) {
  const auto value = constant_of(simplify(e));
  internal_check(value.has_value(), "the extent {} is not constant", to_string(e));
  return *value;
}

/// Either of two, where it is not known which; `value` and `whole` are those of the first.
Element either(const Element& a, const Element& b, DType dtype) {
  if (is_float(dtype)) return number(hull(a.number, b.number), false);
  return whole(a.whole, a.known && b.known && a.whole == b.whole, false);
}

/// The sum of a reduction's terms. Roundings are those of the dtype times the root of the terms (Higham and Mary, "A
/// New Approach to Probabilistic Rounding Error Analysis", 2019), in whatever order they are added.
class Sum {
 public:
  void add(const Interval& term) {
    ++terms_;
    // What is not finite decides the sum alone; roundings are of the others.
    if (std::isfinite(term.size())) size_ += term.size();
    if (terms_ == 1) {
      total_ = term;
    } else if (total_.is_nan() || term.is_nan()) {
      total_ = Interval::point(std::nan(""));
    } else {
      total_ = {total_.value + term.value, total_.low + term.low, total_.high + term.high};
      if (std::isnan(total_.low) || std::isnan(total_.high))
        total_ = std::isnan(total_.low) && std::isnan(total_.high) && std::isnan(total_.value)
                     ? Interval::point(std::nan(""))
                     : Interval::anything(total_.value);
    }
  }
  Interval rounded_to(DType dtype) const {
    const double growth = terms_ > 1 ? 1 + std::sqrt(static_cast<double>(terms_)) : 0;
    return growth > 0 ? rounded(total_, dtype, kUnits * growth * unit_of(dtype) * size_) : total_;
  }
  double size() const { return size_; }

 private:
  Interval total_;
  double size_ = 0;
  int64_t terms_ = 0;
};

/// One compute operation, element by element.
class Evaluator {
 public:
  using Arrays = std::map<std::pair<const OperationNode*, int>, const Elements*>;

  Evaluator(const OperationNode& op, const Arrays& arrays) : op_(op), arrays_(arrays) {}

  Elements run() {
    Elements result{{op_.result_dtypes[0], {}}, {}};
    int64_t count = 1;
    for (const Expr& extent : op_.result_shapes[0]) {
      result.type.shape.emplace_back(extent_of(extent));
      count *= result.type.shape.back().value();
    }
    if (const auto* reduction = op_.body.as<ReduceNode>()) {
      for (const IterVarPtr& axis : reduction->axes)
        ranges_.emplace_back(constant_of(axis->low).value_or(0), extent_of(axis->extent));
    }
    for (int64_t i = 0; i < count; ++i) {
      vars_.clear();
      int64_t rest = i;
      for (size_t d = op_.axes.size(); d-- > 0;) {
        const int64_t extent = result.type.shape[d].value();
        bind(op_.axes[d]->var.as<VarNode>(), whole(rest % extent, true, true));
        rest /= extent;
      }
      const auto* reduction = op_.body.as<ReduceNode>();
      result.of.push_back(reduction ? reduce(*reduction) : eval(op_.body));
    }
    return result;
  }

  double largest_sum() const { return largest_sum_; }

 private:
  void bind(const VarNode* var, const Element& value) {
    for (auto& [known, held] : vars_) {
      if (known != var) continue;
      held = value;
      return;
    }
    vars_.emplace_back(var, value);
  }

  // --- reductions

  Element reduce(const ReduceNode& node) {
    Sum sum;
    const DType dtype = node.type.dtype;
    const bool sums = node.reduce == ReduceKind::kSum && is_float(dtype);
    const bool nan_passes = node.reduce == ReduceKind::kMaxOrNan || node.reduce == ReduceKind::kMinOrNan;
    Element total = eval(identity_of(node.reduce, dtype));
    const auto take = [&](const Element& term) {
      if (sums) return sum.add(term.number);
      total = binary(combining(node.reduce), dtype, total, term, nan_passes);
    };
    for_terms(node, 0, take);
    if (!sums) return total;
    if (std::isfinite(sum.size())) largest_sum_ = std::max(largest_sum_, sum.size());
    return number(sum.rounded_to(dtype), false);
  }

  static BinaryOp combining(ReduceKind kind) {
    static constexpr BinaryOp kOps[] = {BinaryOp::kAdd, BinaryOp::kMul, BinaryOp::kMax, BinaryOp::kMin,
                                        BinaryOp::kOr,  BinaryOp::kAnd, BinaryOp::kMax, BinaryOp::kMin};
    return kOps[static_cast<size_t>(kind)];
  }

  template <typename Take>
  void for_terms(const ReduceNode& node, size_t axis, const Take& take) {
    if (axis == node.axes.size()) {
      if (!node.condition) return take(eval(node.value));
      const Element counts = eval(node.condition);
      if (counts.known) {
        if (counts.whole != 0) take(eval(node.value));
        return;
      }
      return take(either(eval(node.value), eval(identity_of(node.reduce, node.type.dtype)), node.type.dtype));
    }
    const auto [low, extent] = ranges_[axis];
    for (int64_t i = low; i < low + extent; ++i) {
      bind(node.axes[axis]->var.as<VarNode>(), whole(i, true, true));
      for_terms(node, axis + 1, take);
    }
  }

  // --- expressions

  Element eval(const Expr& e) {
    switch (e->kind) {
      case ExprKind::kIntImm:
        return whole(e.as<IntImmNode>()->value, true, true);
      case ExprKind::kFloatImm:
        return number(Interval::point(e.as<FloatImmNode>()->value), true);
      case ExprKind::kVar:
        for (const auto& [var, value] : vars_) {
          if (var == e.as<VarNode>()) return value;
        }
        internal_error("{} has no value", to_string(e));
      case ExprKind::kBinary: {
        const auto* node = e.as<BinaryNode>();
        const Element a = eval(node->a);
        return binary(node->op, node->a.type().dtype, a, eval(node->b), passes_nan(*node));
      }
      case ExprKind::kUnary:
        return unary(*e.as<UnaryNode>());
      case ExprKind::kCall:
        return eval_call(*e.as<CallNode>());
      case ExprKind::kSelect: {
        const auto* node = e.as<SelectNode>();
        return chosen(eval(node->condition), node->if_true, node->if_false);
      }
      case ExprKind::kCast:
        return converted(eval(e.as<CastNode>()->a), e.as<CastNode>()->a.type().dtype, e.type().dtype);
      case ExprKind::kRead:
        return eval_read(*e.as<ReadNode>());
      case ExprKind::kLet: {
        const auto* node = e.as<LetNode>();
        bind(node->var.as<VarNode>(), eval(node->value));
        return eval(node->body);
      }
      default:
        internal_error("{} has no intervals", to_string(e));
    }
  }

  Element chosen(const Element& condition, const Expr& if_true, const Expr& if_false) {
    if (condition.known) return eval(condition.whole != 0 ? if_true : if_false);
    const Element t = eval(if_true), f = eval(if_false);
    return condition.whole != 0 ? either(t, f, if_true.type().dtype) : either(f, t, if_true.type().dtype);
  }

  static Element binary(BinaryOp op, DType dtype, const Element& a, const Element& b, bool nan_passes) {
    const bool fixed = a.fixed && b.fixed;
    if (!is_float(dtype)) {
      const int64_t value = fold_integers(op, dtype, a.whole, b.whole).value_or(0);
      const bool decided = dtype == DType::kBool && (decides(op, a) || decides(op, b));
      return whole(value, decided || (a.known && b.known), fixed);
    }
    if (is_comparison(op)) {
      const auto result = compared(op, a.number, b.number);
      return whole(*compare_floats(op, a.number.value, b.number.value), result.has_value(), fixed);
    }
    if (fixed)
      return number(Interval::point(fold_floats(op, dtype, a.number.value, b.number.value, nan_passes).value()), true);
    return number(apply(op, dtype, a.number, b.number, nan_passes), false);
  }

  /// That operand alone makes the result what it is.
  static bool decides(BinaryOp op, const Element& a) {
    return a.known && ((op == BinaryOp::kAnd && a.whole == 0) || (op == BinaryOp::kOr && a.whole != 0));
  }

  Element unary(const UnaryNode& node) {
    Element a = eval(node.a);
    const DType dtype = node.type.dtype;
    if (is_float(dtype)) {
      a.number = {-a.number.value, -a.number.high, -a.number.low};
    } else {
      a.whole = node.op == UnaryOp::kNeg ? -a.whole : dtype == DType::kBool ? int64_t{a.whole == 0} : ~a.whole;
      a.whole = wrap_integer(dtype, a.whole);
    }
    return a;
  }

  Element eval_call(const CallNode& node) {
    if (node.fn == MathFn::kIfThenElse) return chosen(eval(node.args[0]), node.args[1], node.args[2]);
    const Element a = eval(node.args[0]);
    const DType dtype = node.args[0].type().dtype;
    if (node.fn == MathFn::kIsNan || node.fn == MathFn::kIsInf) return kind_of(node.fn, a);
    if (!is_float(dtype)) {
      internal_check(node.fn == MathFn::kAbs, "{} of integers", name_of(node.fn));
      const bool negative = !is_unsigned_int(dtype) && a.whole < 0;
      return whole(wrap_integer(dtype, negative ? -a.whole : a.whole), a.known, a.fixed);
    }
    internal_check(node.fn != MathFn::kFma, "an fma has no intervals");
    const Element b = node.args.size() > 1 ? eval(node.args[1]) : number({}, true);
    if (a.fixed && b.fixed)
      return number(Interval::point(*fold_math(node.fn, dtype, a.number.value, b.number.value)), true);
    return number(apply(node.fn, dtype, a.number, b.number), false);
  }

  static Element kind_of(MathFn fn, const Element& a) {
    const Interval& x = a.number;
    if (fn == MathFn::kIsNan) return whole(std::isnan(x.value), x.is_nan() || !x.is_anything(), a.fixed);
    const bool may_be = std::isinf(x.low) || std::isinf(x.high);
    return whole(std::isinf(x.value), x.is_point() || !may_be, a.fixed);
  }

  static Element converted(const Element& a, DType from, DType to) {
    const Interval& x = a.number;
    if (is_float(from) && is_float(to)) {
      if (a.fixed) return number(Interval::point(round_float(to, x.value)), true);
      const bool narrows = unit_of(to) > unit_of(from);
      const double size = std::isfinite(x.size()) ? x.size() : 0;
      return number(narrows ? rounded(x, to, kUnits * unit_of(to) * size) : x, false);
    }
    if (is_float(from)) {
      const int64_t value = float_to_integer(to, x.value);
      if (x.is_point()) return whole(value, true, a.fixed);
      const bool same = float_to_integer(to, x.low) == float_to_integer(to, x.high);
      const bool crosses = to == DType::kBool && x.low <= 0 && x.high >= 0;
      return whole(value, same && !crosses && !x.is_anything(), false);
    }
    if (!is_float(to)) return whole(wrap_integer(to, a.whole), a.known, a.fixed);
    const double value = round_float(to, integer_to_float(from, a.whole, to));
    return number(a.known ? Interval::point(value) : Interval::anything(value), a.fixed);
  }

  Element eval_read(const ReadNode& node) {
    const Elements& array = *arrays_.at({node.op.get(), node.result});
    int64_t at = 0;
    bool known = true;
    for (size_t d = 0; d < node.indices.size(); ++d) {
      const Element index = eval(node.indices[d]);
      at = at * array.type.shape[d].value() + index.whole;
      known = known && index.known;
    }
    const auto count = static_cast<int64_t>(array.of.size());
    internal_check(!known || (at >= 0 && at < count), "{} is read at element {}, it has {}", node.op->name, at, count);
    Element read = array.of[static_cast<size_t>(std::clamp<int64_t>(at, 0, count - 1))];
    if (known) return read;
    return is_float(array.type.dtype) ? number(Interval::anything(read.number.value), false)
                                      : whole(read.whole, false, false);
  }

  const OperationNode& op_;
  const Arrays& arrays_;
  std::vector<std::pair<const VarNode*, Element>> vars_;
  std::vector<std::pair<int64_t, int64_t>> ranges_;  ///< of the reduction's axes
  double largest_sum_ = 0;
};

}  // namespace

Elements exactly(const ConstantData& data) {
  const DType dtype = data.type.dtype;
  const auto width = static_cast<size_t>(byte_width(dtype));
  Elements result{data.type, {}};
  for (const std::byte* at = data.bytes; at < data.bytes + data.size; at += width) {
    result.of.push_back(is_float(dtype) ? number(Interval::point(read_float(dtype, at)), false)
                                        : whole(read_integer(dtype, at), true, false));
  }
  return result;
}

Enclosed enclose(const std::vector<Tensor>& outputs, const std::map<const OperationNode*, const Elements*>& inputs) {
  Evaluator::Arrays arrays;
  std::map<const OperationNode*, Elements> computed;
  Enclosed result;
  for (const Operation& op : topological_order(outputs)) {
    if (op->kind == OperationNode::Kind::kExtern) return {};
    if (op->kind == OperationNode::Kind::kPlaceholder) {
      arrays[{op.get(), 0}] = inputs.at(op.get());
      continue;
    }
    Evaluator evaluator(*op, arrays);
    arrays[{op.get(), 0}] = &(computed[op.get()] = evaluator.run());
    result.largest_sum = std::max(result.largest_sum, evaluator.largest_sum());
  }
  for (const Tensor& output : outputs) {
    result.results.push_back(*arrays.at({output.op().get(), 0}));
    for (Element& element : result.results.back().of) element.fixed = false;
  }
  return result;
}

}  // namespace gantry::random_graphs
