#include "host/tensor/interpret_offsets.h"

#include <algorithm>

#include "host/tensor/fold.h"

namespace gantry::interpreter {
namespace {

/// Splits an index expression into parts that depend on one axis each.
class Separator {
 public:
  Separator(const OperationNode& op, const std::vector<int64_t>& shape) : shape_(shape) {
    for (const auto& axis : op.axes) vars_.push_back(axis->var.as<VarNode>());
    for (int64_t extent : shape) offsets_.of_axis.emplace_back(static_cast<size_t>(extent), 0);
  }

  bool add(const Expr& e, int64_t factor) {
    if (const auto* imm = e.as<IntImmNode>()) {
      offsets_.base += imm->value * factor;
      return true;
    }
    if (const auto* binary = e.as<BinaryNode>()) {
      if (binary->op == BinaryOp::kAdd) return add(binary->a, factor) && add(binary->b, factor);
      if (binary->op == BinaryOp::kSub) return add(binary->a, factor) && add(binary->b, -factor);
      if (binary->op == BinaryOp::kMul) {
        if (const auto* imm = binary->b.as<IntImmNode>()) return add(binary->a, factor * imm->value);
        if (const auto* imm = binary->a.as<IntImmNode>()) return add(binary->b, factor * imm->value);
      }
    }
    return add_table(e, factor);
  }

  Offsets take() { return std::move(offsets_); }

 private:
  static constexpr int kNone = -1, kSeveral = -2;

  /// The only axis that the expression depends on.
  int axis_of(const Expr& e) const {
    if (e.as<IntImmNode>()) return kNone;
    if (const auto* var = e.as<VarNode>()) {
      const auto found = std::ranges::find(vars_, var);
      return found == vars_.end() ? kSeveral : static_cast<int>(found - vars_.begin());
    }
    const auto* binary = e.as<BinaryNode>();
    if (binary == nullptr) return kSeveral;
    const int a = axis_of(binary->a), b = axis_of(binary->b);
    if (a == kNone || a == b) return b;
    return b == kNone ? a : kSeveral;
  }

  static std::optional<int64_t> value_at(const Expr& e, int64_t position) {
    if (const auto* imm = e.as<IntImmNode>()) return imm->value;
    if (e.as<VarNode>()) return position;
    const auto* binary = e.as<BinaryNode>();
    const auto a = value_at(binary->a, position), b = value_at(binary->b, position);
    return a && b ? fold_integers(binary->op, DType::kI64, *a, *b) : std::nullopt;
  }

  bool add_table(const Expr& e, int64_t factor) {
    const int axis = axis_of(e);
    if (axis < 0) return false;
    std::vector<int64_t>& table = offsets_.of_axis[static_cast<size_t>(axis)];
    for (size_t i = 0; i < table.size(); ++i) {
      const auto value = value_at(e, static_cast<int64_t>(i));
      if (!value) return false;
      table[i] += factor * *value;
    }
    return true;
  }

  const std::vector<int64_t>& shape_;
  std::vector<const VarNode*> vars_;
  Offsets offsets_;
};

}  // namespace

RangeMap ranges_of(const OperationNode& op, const std::vector<int64_t>& shape) {
  RangeMap ranges;
  for (size_t d = 0; d < shape.size(); ++d) {
    ranges[op.axes[d]->var.as<VarNode>()] = {int_imm(DType::kI64, 0), int_imm(DType::kI64, shape[d])};
  }
  return ranges;
}

std::optional<Offsets> separate(const OperationNode& op, const ReadNode& read, const RangeMap& ranges,
                                const Array& source, const std::vector<int64_t>& shape) {
  Separator separator(op, shape);
  for (size_t d = 0; d < read.indices.size(); ++d) {
    if (!separator.add(simplify(read.indices[d], ranges), source.strides[d])) return std::nullopt;
  }
  Offsets offsets = separator.take();
  int64_t least = offsets.base, most = offsets.base;
  for (const auto& table : offsets.of_axis) {
    least += *std::ranges::min_element(table);
    most += *std::ranges::max_element(table);
  }
  if (least < 0 || most >= source.count) return std::nullopt;
  return offsets;
}

}  // namespace gantry::interpreter
