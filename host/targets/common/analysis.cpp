#include "host/targets/common/analysis.h"

#include <algorithm>

#include "host/targets/common/knob_misfit.h"

namespace gantry::analysis {

bool is_compute(const OperationNode& op) {
  return op.kind == OperationNode::Kind::kCompute;
}
bool is_reduction(const OperationNode& op) {
  return is_compute(op) && op.body.as<ReduceNode>() != nullptr;
}

std::optional<int64_t> constant_extent(const Expr& e) {
  if (auto* imm = e.as<IntImmNode>()) return imm->value;
  return std::nullopt;
}

int64_t given_knob(const OperationNode& op, std::string_view name, int64_t otherwise) {
  return op.decision != nullptr ? op.decision->knob(name, otherwise) : otherwise;
}

void refuse_knob(const OperationNode& op, std::string_view name, int64_t value, const std::string& why) {
  refuse_knob(op, {name, value, why});
}

void refuse_knob(const OperationNode& op, const costs::UnfitKnob& knob) {
  throw KnobMisfit(fmt::format("{}: {}", op.source, knob.str()));
}

std::optional<int64_t> constant_volume(const std::vector<IterVarPtr>& axes) {
  int64_t volume = 1;
  for (const auto& axis : axes) {
    auto extent = constant_extent(axis->extent);
    if (!extent) return std::nullopt;
    volume *= *extent;
  }
  return volume;
}

namespace {

bool uses(const Expr& e, const Expr& var) {
  bool found = false;
  walk(e, [&](const Expr& node) { found = found || node.same_as(var); });
  return found;
}

// 0, 1 or nothing, as read_stride, for one index list.
std::optional<int> stride_of(const std::vector<Expr>& indices, const Expr& var) {
  for (size_t i = 0; i + 1 < indices.size(); ++i) {
    if (uses(indices[i], var)) return std::nullopt;
  }
  if (indices.empty() || !uses(indices.back(), var)) return 0;
  Expr next = substitute(indices.back(), {{var.as<VarNode>(), var + 1}});
  auto step = constant_extent(simplify(next - indices.back()));
  if (step && *step == 1) return 1;
  return std::nullopt;
}

/// Without the last ones that are along axes of one element.
std::vector<Expr> significant_indices(const ReadNode& read) {
  std::vector<Expr> indices = read.indices;
  const auto& shape = read.op->result_shapes[static_cast<size_t>(read.result)];
  while (indices.size() > 1 && constant_extent(shape[indices.size() - 1]) == 1) indices.pop_back();
  return indices;
}

}  // namespace

std::optional<int> read_stride(const OperationNode& op, const Expr& var) {
  return read_stride(op.body, var);
}

std::optional<int> read_stride(const Expr& body, const Expr& var) {
  std::optional<int> worst = 0;
  walk(body, [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    if (!read || !worst) return;
    auto stride = stride_of(read->indices, var);
    if (!stride) stride = stride_of(significant_indices(*read), var);
    worst = stride ? std::optional<int>(std::max(*worst, *stride)) : std::nullopt;
  });
  return worst;
}

int element_cost(const Expr& body) {
  int cost = 0;
  walk(body, [&](const Expr& node) {
    if (auto* call = node.as<CallNode>()) {
      switch (call->fn) {
        case MathFn::kFloor:
        case MathFn::kCeil:
        case MathFn::kRound:
        case MathFn::kTrunc:
        case MathFn::kAbs:
        case MathFn::kTruncBf16:
        case MathFn::kFma:
        case MathFn::kIfThenElse:
        case MathFn::kIsNan:
        case MathFn::kIsInf:
          cost += 1;
          break;
        default:
          cost += 16;
      }
    } else if (node.as<BinaryNode>() || node.as<SelectNode>()) {
      cost += 1;
    }
  });
  return cost;
}

bool is_index_of(const Expr& index, const IterVar& axis) {
  return index.same_as(axis.var) || (constant_extent(axis.extent) == 1 && constant_extent(index) == 0);
}

bool reads_own_index(const OperationNode& op) {
  bool same = true;
  walk(op.body, [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    if (!read || read->indices.empty()) return;
    if (read->indices.size() != op.axes.size()) {
      same = false;
      return;
    }
    for (size_t i = 0; i < op.axes.size(); ++i) same = same && is_index_of(read->indices[i], *op.axes[i]);
  });
  return same;
}

bool reads_same_index(const OperationNode& op) {
  bool same = reads_own_index(op);
  // A body that uses its position (arange, padding) is not a function of the elements alone.
  for (const auto& axis : op.axes) {
    int total = 0, in_reads = 0;
    walk(op.body, [&](const Expr& node) {
      if (node.same_as(axis->var)) ++total;
      if (auto* read = node.as<ReadNode>()) {
        for (const Expr& index : read->indices)
          walk(index, [&](const Expr& e) { in_reads += e.same_as(axis->var); });
      }
    });
    same = same && total == in_reads;
  }
  return same;
}

Stage* stage_of(const Schedule& schedule, Role role) {
  for (const auto& stage : schedule.stages()) {
    if (stage->op()->role == role) return stage.get();
  }
  return nullptr;
}

std::vector<const OperationNode*> readers_of(const Schedule& schedule, const OperationNode& op) {
  std::vector<const OperationNode*> readers;
  for (const auto& stage : schedule.stages()) {
    bool reads = false;
    if (is_compute(*stage->op())) {
      walk(stage->op()->body, [&](const Expr& node) {
        auto* read = node.as<ReadNode>();
        reads = reads || (read && read->op.get() == &op);
      });
    }
    for (const Tensor& input : stage->op()->extern_inputs) reads = reads || input.op().get() == &op;
    if (reads) readers.push_back(stage->op().get());
  }
  return readers;
}

bool is_output(const Schedule& schedule, const OperationNode& op) {
  const auto& outputs = schedule.outputs();
  return std::any_of(outputs.begin(), outputs.end(), [&](const Tensor& t) {
    return t.op().get() == &op || schedule.find(t.op().get()) == schedule.find(&op);
  });
}

}  // namespace gantry::analysis
