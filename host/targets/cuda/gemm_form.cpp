#include "host/targets/cuda/gemm_form.h"

#include "host/graph/shape_guess.h"
#include "host/targets/common/analysis.h"
#include "host/targets/common/memory_order.h"

namespace gantry::cuda {
namespace {

using analysis::constant_extent;
using analysis::contiguous_along;

Expr round_up(const Expr& extent, int64_t unit) {
  return simplify(floordiv(extent + Expr(unit - 1), Expr(unit)) * Expr(unit));
}

Expr round_operand(const Expr& e, Precision precision) {
  switch (precision) {
    case Precision::kTf32:
      return call(MathFn::kRoundTf32, {e});
    case Precision::kBf16:
      return cast(DType::kBF16, e);
    case Precision::kFp16:
      return cast(DType::kF16, e);
    case Precision::kAuto:
    case Precision::kFp32:
    case Precision::kFp32Split:  // of CPUs
    case Precision::kFp32Split3:
      break;
  }
  return e;
}

// `element` with other values for the product's axes, 0 outside.
Expr guarded_element(const Expr& element, const std::vector<std::pair<const VarNode*, Expr>>& bindings,
                     const std::vector<std::pair<Expr, std::pair<Expr, Expr>>>& bounds) {
  Expr inside;
  for (const auto& [value, extents] : bounds) {
    const auto& [extent, padded] = extents;
    if (structurally_equal(simplify(extent), simplify(padded))) continue;
    Expr here = lt(value, extent);
    inside = inside ? inside && here : here;
  }
  Expr e = substitute(element, bindings);
  return inside ? if_then_else(inside, e, const_of(e.type().dtype, 0)) : e;
}

std::vector<Expr> prefixed(const std::vector<Expr>& prefix, std::vector<Expr> rest) {
  rest.insert(rest.begin(), prefix.begin(), prefix.end());
  return rest;
}

int64_t typical(const Expr& e, guess::Extent measures) {
  return guess::extent(constant_extent(simplify(e)), measures);
}

}  // namespace

std::optional<GemmStage> find_gemm(const Operation& op) {
  if (op->role != Role::kGemm || !analysis::is_reduction(*op) || op->reduce_axes.size() != 1)
    return std::nullopt;
  const auto* reduce = op->body.as<ReduceNode>();
  const auto* product = reduce->value.as<BinaryNode>();
  if (reduce->reduce != ReduceKind::kSum || reduce->condition.get() || !product || product->op != BinaryOp::kMul)
    return std::nullopt;
  size_t rank = op->axes.size();
  if (rank != 2 && rank != 3) return std::nullopt;
  GemmStage gemm;
  gemm.op = op;
  if (rank == 3) gemm.batch = op->axes[0]->extent;
  gemm.m = op->axes[rank - 2]->extent;
  gemm.n = op->axes[rank - 1]->extent;
  gemm.k = op->reduce_axes[0]->extent;
  gemm.a_element = product->a;
  gemm.b_element = product->b;
  if (mentions(gemm.a_element, op->axes[rank - 1]->var) || mentions(gemm.b_element, op->axes[rank - 2]->var))
    return std::nullopt;
  const Expr& k = op->reduce_axes[0]->var;
  Expr a = analysis::inline_all(gemm.a_element), b = analysis::inline_all(gemm.b_element);
  gemm.a_along_m = contiguous_along(a, op->axes[rank - 2]->var) && !contiguous_along(a, k);
  gemm.b_along_k = contiguous_along(b, k) && !contiguous_along(b, op->axes[rank - 1]->var);
  return gemm;
}

GemmWork gemm_work(const GemmStage& gemm) {
  using guess::Extent;
  GemmWork work;
  work.batch = gemm.batch ? typical(gemm.batch, Extent::kProducts) : 1;
  // Blocks are as good in either direction: both sides of the result are guessed alike.
  work.m = typical(gemm.m, Extent::kColumns);
  work.n = typical(gemm.n, Extent::kColumns);
  work.k = typical(gemm.k, Extent::kDepth);
  auto fixed = [](const Expr& e) { return !e.get() || constant_extent(simplify(e)).has_value(); };
  work.symbolic = !(fixed(gemm.batch) && fixed(gemm.m) && fixed(gemm.n) && fixed(gemm.k));
  double bytes = 0;
  walk(analysis::inline_all(gemm.a_element), [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    if (!read) return;
    double count = byte_width(node.type().dtype);
    for (const Expr& extent : read->op->result_shapes[static_cast<size_t>(read->result)])
      count *= static_cast<double>(typical(extent, Extent::kColumns));
    bytes += count;
  });
  work.a_bytes = bytes;
  const auto given = [&](std::string_view knob) { return analysis::given_knob(*gemm.op, knob); };
  work.given = {given("block_rows"), given("block_columns"), given("block_depth"), given("split")};
  return work;
}

GemmTensors tile_gemm(const GemmStage& gemm, const GemmTile& tile, Precision precision, bool separate) {
  const OperationNode& op = *gemm.op;
  size_t rank = op.axes.size();
  const auto *m_var = op.axes[rank - 2]->var.as<VarNode>(), *n_var = op.axes[rank - 1]->var.as<VarNode>(),
             *k_var = op.reduce_axes[0]->var.as<VarNode>();
  Expr m = round_up(gemm.m, tile.bm), n = round_up(gemm.n, tile.bn);
  Expr part = round_up(tile.split == 1 ? gemm.k : floordiv(gemm.k + Expr(tile.split - 1), Expr(tile.split)), tile.bk);
  Expr k = simplify(part * Expr(tile.split));
  std::vector<Expr> outer;
  if (gemm.batch) outer.push_back(gemm.batch);

  // Tensor cores read pairs along k.
  const bool k_last = precision != Precision::kFp32;

  auto operand = [&](const Expr& element, const VarNode* own, const Expr& extent, const Expr& padded,
                     const char* name) {
    auto body = [&](const std::vector<Expr>& i) {
      Expr depth = i[i.size() - 2], position = i.back();
      if (k_last) std::swap(depth, position);
      std::vector<std::pair<const VarNode*, Expr>> bindings{{own, position}, {k_var, op.reduce_axes[0]->low + depth}};
      if (gemm.batch) bindings.emplace_back(op.axes[0]->var.as<VarNode>(), i[0]);
      return round_operand(guarded_element(element, bindings, {{position, {extent, padded}}, {depth, {gemm.k, k}}}),
                           precision);
    };
    return compute(prefixed(outer, k_last ? std::vector<Expr>{padded, k} : std::vector<Expr>{k, padded}),
                   body, name, Role::kGemmTile);
  };
  GemmTensors t;
  t.a = operand(gemm.a_element, m_var, gemm.m, m, "a_tile");
  t.b = operand(gemm.b_element, n_var, gemm.n, n, "b_tile");

  bool split = tile.split > 1;
  auto kk = reduce_axis(0, part, "k");
  std::vector<Expr> leading = split ? prefixed({Expr(tile.split)}, outer) : outer;
  auto product = [&](const std::vector<Expr>& i) {
    Expr depth = split ? i[0] * part + kk->var : kk->var;
    std::vector<Expr> at;
    if (gemm.batch) at.push_back(i[split ? 1 : 0]);
    auto factor = [&](const Tensor& tile_of, const Expr& position) {
      Expr e = tile_of(k_last ? prefixed(at, {position, depth}) : prefixed(at, {depth, position}));
      return precision == Precision::kBf16 || precision == Precision::kFp16 ? cast(DType::kF32, e) : e;
    };
    return sum(factor(t.a, i[i.size() - 2]) * factor(t.b, i.back()), {kk});
  };
  t.product = compute(prefixed(leading, {m, n}), product, "gemm_tile_product");
  t.result = t.product;
  if (split || separate) {
    t.stored = compute(
        prefixed(leading, {gemm.m, gemm.n}), [&](const std::vector<Expr>& i) { return t.product(i); },
        split ? "gemm_part" : "gemm", Role::kGemmStored);
    t.result = t.stored;
  }
  if (split) {
    auto s = reduce_axis(0, Expr(tile.split), "s");
    t.result = compute(
        prefixed(outer, {gemm.m, gemm.n}),
        [&](const std::vector<Expr>& i) { return sum(t.stored(prefixed({s->var}, i)), {s}); }, "gemm_sum");
  }
  return t;
}

GemvTensors split_gemv(const GemmStage& gemm, const GemvTile& tile) {
  const OperationNode& op = *gemm.op;
  Expr part = simplify(floordiv(gemm.k + Expr(tile.split - 1), Expr(tile.split)));
  bool exact = structurally_equal(simplify(part * Expr(tile.split)), simplify(gemm.k));
  std::vector<Expr> shape = op.result_shapes[0];
  auto kk = reduce_axis(0, part, "k");
  auto body = [&](const std::vector<Expr>& i) {
    Expr depth = i[0] * part + kk->var;
    std::vector<std::pair<const VarNode*, Expr>> bindings{
        {op.reduce_axes[0]->var.as<VarNode>(), op.reduce_axes[0]->low + depth}};
    for (size_t d = 0; d < op.axes.size(); ++d) bindings.emplace_back(op.axes[d]->var.as<VarNode>(), i[d + 1]);
    Expr value = substitute(op.body.as<ReduceNode>()->value, bindings);
    return reduce(ReduceKind::kSum, value, {kk}, exact ? Expr() : lt(depth, gemm.k));
  };
  GemvTensors t;
  t.partial = compute(prefixed({Expr(tile.split)}, shape), body, "gemv_part");
  auto s = reduce_axis(0, Expr(tile.split), "s");
  t.result = compute(
      shape, [&](const std::vector<Expr>& i) { return sum(t.partial(prefixed({s->var}, i)), {s}); },
      "gemm_sum");
  return t;
}

}  // namespace gantry::cuda
