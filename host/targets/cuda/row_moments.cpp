#include "host/targets/cuda/row_moments.h"

#include <algorithm>

#include "host/targets/common/analysis.h"
#include "host/targets/common/memory_order.h"

namespace gantry::cuda {
namespace {

using namespace analysis;  // NOLINT

using Indices = std::vector<Expr>;
using Bindings = std::vector<std::pair<const VarNode*, Expr>>;

const ReduceNode* plain_sum(const Operation& op) {
  auto* reduction = op->body.as<ReduceNode>();
  return reduction && reduction->reduce == ReduceKind::kSum && !reduction->condition ? reduction : nullptr;
}

Indices joined(Indices a, const Indices& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const BinaryNode* binary_of(const Expr& e, BinaryOp op) {
  auto* node = e.as<BinaryNode>();
  return node && node->op == op ? node : nullptr;
}

// The quotient if `e` is sum(…) / count, the mean.
const BinaryNode* mean_of(const Expr& e, const Operation& sum) {
  auto* quotient = binary_of(e, BinaryOp::kDiv);
  auto* read = quotient ? quotient->a.as<ReadNode>() : nullptr;
  return read && read->op == sum ? quotient : nullptr;
}

// Extents of chunks, whole innermost axes as far as they fit; even ones where those are not much smaller.
std::vector<int64_t> chunk_extents(const std::vector<IterVarPtr>& axes, int64_t elements) {
  std::vector<int64_t> chunk(axes.size(), 1);
  for (size_t d = axes.size(); d-- > 0;) {
    const int64_t extent = *constant_extent(simplify(axes[d]->extent));
    chunk[d] = std::min(extent, elements);
    int64_t even = chunk[d];
    while (extent % even) --even;
    if (even * 2 >= chunk[d]) chunk[d] = even;
    elements /= chunk[d];
    if (chunk[d] < extent) break;
  }
  return chunk;
}

// Reads of the sums that normalise become reads of the moments: x - sum / count is (x - first) - total /
// count.
class UseMoments : public ExprMutator {
 public:
  UseMoments(const RowMoments& found, const Tensor& moments) : found_(found), moments_(moments) {}

 protected:
  Expr mutate_default(const Expr& self) override {
    auto* difference = binary_of(self, BinaryOp::kSub);
    auto* mean = difference ? mean_of(difference->b, found_.sum) : nullptr;
    if (!mean) return ExprMutator::mutate_default(self);
    const Indices& slice = mean->a.as<ReadNode>()->indices;
    return (mutate(difference->a) - moment(2, slice)) - moment(0, slice) / mean->b;
  }
  Expr mutate_read(const ReadNode* node, const Expr& self) override {
    if (node->op == found_.sum) return moment(0, node->indices) + found_.count * moment(2, node->indices);
    if (node->op == found_.square_sum) return moment(1, node->indices);
    return ExprMutator::mutate_read(node, self);
  }

 private:
  Expr moment(int which, const Indices& slice) const { return moments_(joined({which}, slice)); }

  const RowMoments& found_;
  const Tensor& moments_;
};

class Splitter {
 public:
  Splitter(const RowMoments& found, const ChunkShape& shape)
      : found_(found),
        slices_(found.sum->result_shapes[0]),
        innermost_(shape.slices_innermost),
        subparts_(shape.parts) {
    const auto& axes = found.sum->reduce_axes;
    const std::vector<int64_t> chunk = chunk_extents(axes, shape.elements);
    for (size_t d = 0; d < axes.size(); ++d) {
      const int64_t extent = *constant_extent(simplify(axes[d]->extent));
      extents_.push_back(extent);
      chunk_.emplace_back(chunk[d]);
      parts_.emplace_back((extent + chunk[d] - 1) / chunk[d]);
      even_.push_back(extent % chunk[d] == 0);
    }
    wide_ = found.sum->result_dtypes[0];
  }

  SplitMoments split() const {
    SplitMoments s;
    s.tile = tile();
    s.sum = chunk_sum(
        "row_sum", [&](const Indices& at, const Expr& x) { return x - first(s.tile, at); }, s.tile);
    s.square_sum = chunk_sum(
        "row_square_sum",
        [&](const Indices& at, const Expr& x) {
          Expr deviation = (x - first(s.tile, at)) - s.sum(at) / count(at);
          return deviation * deviation;
        },
        s.tile);
    s.chunks = three(
        joined(parts_, slices_), s.sum, s.square_sum, [&](const Indices& at) { return first(s.tile, at); },
        "row_chunks");
    combine(s);
    return s;
  }

 private:
  size_t part_rank() const { return parts_.size(); }
  Indices parts_of(const Indices& at) const {
    return {at.begin(), at.begin() + static_cast<std::ptrdiff_t>(part_rank())};
  }
  Indices slice_of(const Indices& at) const {
    return {at.begin() + static_cast<std::ptrdiff_t>(part_rank()), at.end()};
  }
  /// An element of the tile; `at` is (part…, slice…).
  Expr element(const Tensor& tile, const Indices& at, const Indices& inner) const {
    Indices slice = slice_of(at);
    return tile(joined(parts_of(at), innermost_ ? joined(inner, slice) : joined(slice, inner)));
  }
  Expr first(const Tensor& tile, const Indices& at) const {
    return element(tile, at, Indices(part_rank(), Expr(0)));
  }
  /// Null where every element of every chunk exists.
  Expr exists(const Indices& parts, const Indices& inner) const {
    Expr all;
    for (size_t d = 0; d < part_rank(); ++d) {
      if (even_[d]) continue;
      Expr inside = lt(parts[d] * chunk_[d] + inner[d], Expr(extents_[d]));
      all = all ? all && inside : inside;
    }
    return all;
  }
  /// Elements of a chunk.
  Expr count(const Indices& parts) const {
    Expr n = 1;
    for (size_t d = 0; d < part_rank(); ++d)
      n = n * (even_[d] ? chunk_[d] : min(chunk_[d], Expr(extents_[d]) - parts[d] * chunk_[d]));
    if (auto* imm = n.as<IntImmNode>()) return const_of(wide_, static_cast<double>(imm->value));
    return cast(wide_, n);
  }

  Tensor tile() const {
    const Indices shape = joined(parts_, innermost_ ? joined(chunk_, slices_) : joined(slices_, chunk_));
    const size_t first_inner = innermost_ ? part_rank() : part_rank() + slices_.size();
    const size_t first_slice = innermost_ ? 2 * part_rank() : part_rank();
    Expr value = inline_all(found_.sum->body.as<ReduceNode>()->value);
    auto body = [&](const Indices& i) {
      Indices inner(i.begin() + static_cast<std::ptrdiff_t>(first_inner),
                    i.begin() + static_cast<std::ptrdiff_t>(first_inner + part_rank()));
      Bindings bindings;
      for (size_t d = 0; d < part_rank(); ++d) {
        const auto& axis = found_.sum->reduce_axes[d];
        bindings.emplace_back(axis->var.as<VarNode>(), axis->low + (i[d] * chunk_[d] + inner[d]));
      }
      for (size_t d = 0; d < slices_.size(); ++d)
        bindings.emplace_back(found_.sum->axes[d]->var.as<VarNode>(), i[first_slice + d]);
      Expr x = substitute(value, bindings);
      Expr inside = exists(i, inner);
      return inside ? if_then_else(inside, x, const_of(wide_, 0)) : x;
    };
    return compute(shape, body, "row_tile", Role::kRowTile);
  }

  Tensor chunk_sum(const char* name, const std::function<Expr(const Indices&, const Expr&)>& value,
                   const Tensor& tile) const {
    std::vector<IterVarPtr> axes;
    Indices inner;
    for (const Expr& extent : chunk_) {
      axes.push_back(reduce_axis(0, extent, "r"));
      inner.push_back(axes.back()->var);
    }
    auto body = [&](const Indices& at) {
      return reduce(ReduceKind::kSum, value(at, element(tile, at, inner)), axes, exists(at, inner));
    };
    Tensor result = compute(joined(parts_, slices_), body, name);
    if (subparts_ == 1) return result;
    SplitReduction split = split_reduction(result.op(), Expr(subparts_), true);
    auto total = std::make_shared<OperationNode>(*split.total.op());
    total->role = Role::kTotal;
    return Tensor(total, 0);
  }

  /// The three values behind each other, a result of one launch.
  Tensor three(const Indices& shape, const Tensor& sum, const Tensor& square_sum,
               const std::function<Expr(const Indices&)>& first_element, const char* name) const {
    auto body = [&](const Indices& i) {
      Indices at(i.begin() + 1, i.end());
      return if_then_else(eq(i[0], Expr(0)), sum(at),
                          if_then_else(eq(i[0], Expr(1)), square_sum(at), first_element(at)));
    };
    return compute(joined({3}, shape), body, name, Role::kRowMoments);
  }

  void combine(SplitMoments& s) const {
    const Indices none(part_rank(), Expr(0));
    auto chunk = [&](int which, const Indices& parts, const Indices& slice) {
      return s.chunks(joined(joined({which}, parts), slice));
    };
    auto over_parts = [&](const char* name,
                          const std::function<Expr(const Indices&, const Indices&, const Expr&)>& value) {
      std::vector<IterVarPtr> axes;
      Indices parts;
      for (const Expr& extent : parts_) {
        axes.push_back(reduce_axis(0, extent, "p"));
        parts.push_back(axes.back()->var);
      }
      auto body = [&](const Indices& slice) {
        return sum(value(parts, slice, chunk(2, parts, slice) - chunk(2, none, slice)), axes);
      };
      return compute(slices_, body, name);
    };
    s.total = over_parts("row_total", [&](const Indices& parts, const Indices& slice, const Expr& shift) {
      return chunk(0, parts, slice) + count(parts) * shift;
    });
    s.total_square_sum = over_parts(
        "row_total_square_sum", [&](const Indices& parts, const Indices& slice, const Expr& shift) {
          Expr distance = (chunk(0, parts, slice) / count(parts) + shift) - s.total(slice) / found_.count;
          return chunk(1, parts, slice) + count(parts) * (distance * distance);
        });
    s.moments = three(
        slices_, s.total, s.total_square_sum, [&](const Indices& slice) { return chunk(2, none, slice); },
        "row_moments");
  }

  const RowMoments& found_;
  Indices slices_;
  bool innermost_;
  int64_t subparts_;
  std::vector<int64_t> extents_;  ///< of the reduced axes
  Indices chunk_, parts_;
  std::vector<bool> even_;
  DType wide_ = DType::kF32;
};

}  // namespace

std::optional<RowMoments> find_moments(const RowForm& form) {
  if (form.reductions.size() != 2 || form.output_reduces || !form.row_length) return std::nullopt;
  RowMoments found{form.reductions[0], form.reductions[1], {}};
  auto* first = plain_sum(found.sum);
  auto* second = plain_sum(found.square_sum);
  if (!first || !second || found.sum->reduce_axes.size() != found.square_sum->reduce_axes.size())
    return std::nullopt;
  auto* square = binary_of(second->value, BinaryOp::kMul);
  if (!square || !structurally_equal(square->a, square->b)) return std::nullopt;
  auto* deviation = binary_of(square->a, BinaryOp::kSub);
  auto* mean = deviation ? mean_of(deviation->b, found.sum) : nullptr;
  if (!mean) return std::nullopt;
  const Indices& slice = mean->a.as<ReadNode>()->indices;
  Bindings same;
  for (size_t d = 0; d < found.sum->axes.size(); ++d) {
    if (!slice[d].same_as(found.square_sum->axes[d]->var)) return std::nullopt;
    same.emplace_back(found.square_sum->axes[d]->var.as<VarNode>(), found.sum->axes[d]->var);
  }
  for (size_t d = 0; d < found.sum->reduce_axes.size(); ++d)
    same.emplace_back(found.square_sum->reduce_axes[d]->var.as<VarNode>(), found.sum->reduce_axes[d]->var);
  if (!structurally_equal(substitute(deviation->a, same), first->value)) return std::nullopt;
  found.count = mean->b;
  return found;
}

SplitMoments split_moments(const RowMoments& moments, const Tensor& output, const ChunkShape& shape) {
  SplitMoments split = Splitter(moments, shape).split();
  auto normalised = std::make_shared<OperationNode>(*output.op());
  normalised->body = UseMoments(moments, split.moments).mutate(inline_all(output.op()->body));
  split.output = Tensor(normalised, output.result());
  return split;
}

}  // namespace gantry::cuda
