#include "host/targets/cuda/row_form.h"

#include <algorithm>

#include "host/ops/gemm.h"
#include "host/targets/common/analysis.h"
#include "host/targets/common/memory_order.h"

namespace gantry::cuda {
namespace {

using namespace analysis;  // NOLINT

// An index of a reduction over rows: data axes and reduced axes do not overlap as windows do. Mixed is only
// slice * extent + reduced.
bool is_row_index(const Expr& index, const OperationNode& op) {
  const IterVar* reduced = nullptr;
  Expr data;
  for (const auto& axis : op.reduce_axes) {
    if (!mentions(index, axis->var)) continue;
    if (reduced) return false;
    reduced = axis.get();
  }
  for (const auto& axis : op.axes) {
    if (mentions(index, axis->var)) data = axis->var;
  }
  if (!reduced) return true;
  if (!data) return index.same_as(reduced->var);
  Expr step = substitute(index, {{data.as<VarNode>(), data + 1}}) - index;
  return structurally_equal(simplify(step), simplify(reduced->extent));
}

bool is_row_reduction(const OperationNode& op) {
  bool rows = true, reads = false;
  walk(inline_all(op.body.as<ReduceNode>()->value), [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    if (!read) return;
    bool reduced = false;
    for (const Expr& index : read->indices) {
      rows = rows && is_row_index(index, op);
      for (const auto& axis : op.reduce_axes) reduced = reduced || mentions(index, axis->var);
    }
    reads = reads || reduced;
  });
  return rows && reads;
}

bool same_extents(const std::vector<IterVarPtr>& a, const std::vector<IterVarPtr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!structurally_equal(simplify(a[i]->extent), simplify(b[i]->extent))) return false;
  }
  return true;
}

// Where in the output's axes the index of a slice comes from.
std::optional<RowForm::SliceAxis> slice_axis(const Expr& index, const OperationNode& output) {
  for (size_t j = 0; j < output.axes.size(); ++j) {
    const Expr& var = output.axes[j]->var;
    if (index.same_as(var)) return RowForm::SliceAxis{j, 1};
    auto* divided = index.as<BinaryNode>();
    if (divided && divided->op == BinaryOp::kFloorDiv && divided->a.same_as(var)) {
      if (auto by = constant_extent(divided->b)) return RowForm::SliceAxis{j, *by};
    }
  }
  return std::nullopt;
}

bool map_slices(RowForm& form, const OperationNode& output) {
  const OperationNode& first = *form.reductions.front();
  std::vector<std::optional<RowForm::SliceAxis>> found(first.axes.size());
  bool consistent = true;
  walk(inline_all(output.body), [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    if (!read || !is_reduction(*read->op)) return;
    for (size_t d = 0; d < read->indices.size(); ++d) {
      if (constant_extent(simplify(first.axes[d]->extent)) == 1) continue;
      auto axis = slice_axis(read->indices[d], output);
      bool same =
          !found[d] || (axis && found[d]->output_axis == axis->output_axis && found[d]->split == axis->split);
      consistent = consistent && axis && same;
      found[d] = axis;
    }
  });
  if (!consistent) return false;
  std::vector<bool> taken(output.axes.size(), false);
  for (size_t d = 0; d < found.size(); ++d) {
    if (constant_extent(simplify(first.axes[d]->extent)) == 1) continue;
    if (!found[d] || taken[found[d]->output_axis]) return false;
    taken[found[d]->output_axis] = true;
    form.slices.push_back(*found[d]);
  }
  std::sort(form.slices.begin(), form.slices.end(),
            [](const auto& a, const auto& b) { return a.output_axis < b.output_axis; });
  for (size_t j = 0; j < output.axes.size(); ++j) {
    bool one = constant_extent(simplify(output.axes[j]->extent)) == 1;
    if (!taken[j] && one) {
      form.slices.push_back({j, 1});
    } else if (!taken[j]) {
      form.rows.push_back(j);
    }
  }
  std::sort(form.slices.begin(), form.slices.end(),
            [](const auto& a, const auto& b) { return a.output_axis < b.output_axis; });
  return true;
}

bool reads_at_own_position(const Expr& body, const OperationNode& source, const OperationNode& output) {
  bool reads = false, own = true;
  walk(body, [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    if (!read || read->op.get() != &source) return;
    reads = true;
    own = own && read->indices.size() == output.axes.size();
    for (size_t i = 0; own && i < output.axes.size(); ++i)
      own = is_index_of(read->indices[i], *output.axes[i]);
  });
  return reads && own;
}

// The tensor that a reduction walks along and the output reads again.
Tensor find_kept(const RowForm& form, const OperationNode& output) {
  Tensor kept;
  const OperationNode& first = *form.reductions.front();
  Expr body = inline_all(output.body);
  walk(inline_all(first.body.as<ReduceNode>()->value), [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    if (!read || kept || is_compute(*read->op)) return;
    bool reduced = std::any_of(first.reduce_axes.begin(), first.reduce_axes.end(),
                               [&](const auto& axis) { return mentions(node, axis->var); });
    if (reduced && reads_at_own_position(body, *read->op, output)) kept = Tensor(read->op, read->result);
  });
  return kept;
}

}  // namespace

std::optional<RowForm> find_rows(const std::vector<Tensor>& outputs) {
  if (outputs.size() != 1 || !is_compute(*outputs[0].op())) return std::nullopt;
  const OperationNode& output = *outputs[0].op();
  RowForm form;
  for (const Operation& op : topological_order(outputs)) {
    if (op->kind == OperationNode::Kind::kExtern) return std::nullopt;
    if (!is_reduction(*op)) continue;
    if (!is_row_reduction(*op)) return std::nullopt;
    if (!form.reductions.empty() && !same_extents(op->axes, form.reductions.front()->axes))
      return std::nullopt;
    form.reductions.push_back(op);
  }
  if (form.reductions.empty()) return std::nullopt;
  const OperationNode& first = *form.reductions.front();
  form.output_reduces = is_reduction(output);
  if (form.output_reduces) {
    for (size_t j = 0; j < output.axes.size(); ++j) form.slices.push_back({j, 1});
  } else if (!map_slices(form, output)) {
    return std::nullopt;
  }
  Expr value = inline_all(first.body.as<ReduceNode>()->value);
  form.row_contiguous = contiguous_along(value, first.reduce_axes.back()->var);
  form.slice_contiguous = !first.axes.empty() && contiguous_along(value, first.axes.back()->var);
  form.slice_count = constant_volume(first.axes);
  form.row_length = constant_volume(first.reduce_axes);
  if (!form.rows.empty()) form.kept = find_kept(form, output);
  return form;
}

SplitReduction split_reduction(const Operation& op, const Expr& parts, bool guarded) {
  const auto* reduction = op->body.as<ReduceNode>();
  std::vector<Expr> extents;
  Expr total = 1;
  for (const auto& axis : op->reduce_axes) {
    extents.push_back(axis->extent);
    total = total * axis->extent;
  }
  Expr chunk = simplify(floordiv(total + parts - 1, parts));
  bool exact = structurally_equal(simplify(chunk * parts), simplify(total));
  auto inner = reduce_axis(0, chunk, "r");
  std::vector<Expr> shape = op->result_shapes[0];
  shape.insert(shape.begin(), parts);
  auto body = [&](const std::vector<Expr>& i) {
    Expr flat = i[0] * chunk + inner->var;
    std::vector<Expr> at = ops::unflatten(flat, extents);
    std::vector<std::pair<const VarNode*, Expr>> bindings;
    for (size_t d = 0; d < at.size(); ++d)
      bindings.emplace_back(op->reduce_axes[d]->var.as<VarNode>(), op->reduce_axes[d]->low + at[d]);
    for (size_t d = 0; d < op->axes.size(); ++d)
      bindings.emplace_back(op->axes[d]->var.as<VarNode>(), i[d + 1]);
    Expr condition = reduction->condition ? substitute(reduction->condition, bindings) : Expr();
    if (!exact) condition = condition ? lt(flat, total) && condition : lt(flat, total);
    if (guarded) {
      Expr inside = lt(i.back(), op->axes.back()->extent);
      condition = condition ? inside && condition : inside;
    }
    return reduce(reduction->reduce, substitute(reduction->value, bindings), {inner}, condition);
  };
  SplitReduction split;
  split.partial = compute(shape, body, op->name + "_part", Role::kPartialSum);
  auto p = reduce_axis(0, parts, "p");
  split.total = compute(
      op->result_shapes[0],
      [&](const std::vector<Expr>& i) {
        std::vector<Expr> at{p->var};
        at.insert(at.end(), i.begin(), i.end());
        return reduce(reduction->reduce, split.partial(at), {p});
      },
      op->name, op->role);
  return split;
}

}  // namespace gantry::cuda
