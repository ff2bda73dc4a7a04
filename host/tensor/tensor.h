// Tensor expressions: what an op computes, element by element, without saying how.
//
//   Tensor a = placeholder({M, K}, DType::kF32, "a"), b = placeholder({K, N}, DType::kF32, "b");
//   auto k = reduce_axis(0, K, "k");
//   Tensor c = compute({M, N}, [&](auto i) { return sum(a({i[0], k->var}) * b({k->var, i[1]}), {k}); }, "c");
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/graph/decision.h"
#include "host/tensor/expr.h"
#include "host/tensor/role.h"

namespace gantry {

/// One iteration axis: of a compute's result, of a reduction, or made by a schedule.
struct IterVar {
  enum class Kind : uint8_t { kData, kReduce };
  Expr var;          ///< kI64 variable
  Expr low, extent;  ///< domain; made by a schedule: filled in by lowering
  Kind kind = Kind::kData;
  const std::string& name() const { return var.as<VarNode>()->name; }
};
using IterVarPtr = std::shared_ptr<IterVar>;

class Tensor;
class LoopBuilder;  // host/loops/stmt.h

/// A node of the tensor-expression graph.
struct OperationNode {
  enum class Kind : uint8_t { kPlaceholder, kCompute, kExtern };
  Kind kind = Kind::kPlaceholder;
  std::string name;
  std::vector<std::vector<Expr>> result_shapes;  ///< a result each
  std::vector<DType> result_dtypes;
  /// kCompute: one data axis a dimension of the (single) result.
  std::vector<IterVarPtr> axes;
  std::vector<IterVarPtr> reduce_axes;  ///< kCompute whose body is a ReduceNode
  Expr body;                            ///< kCompute
  std::vector<Tensor> extern_inputs;    ///< kExtern
  /// kExtern: emits the loop nest by hand, given buffers of inputs then results (LoopBuilder*).
  std::function<void(LoopBuilder&)> extern_body;
  /// kExtern: the same for a GPU, as launches; null where the operation only runs on a CPU.
  std::function<void(LoopBuilder&)> extern_gpu_body;
  Role role = Role::kNone;  ///< what schedule rules are to take it for
  /// The op and the user's nodes that it is part of, for dumps: "nn.conv of Conv_0"; set by who knows them.
  mutable std::string source;
  /// How that op's node is computed, where that was decided: rules take the knobs of schedules from it. Set with
  /// `source`.
  mutable std::shared_ptr<const Decision> decision;
};
using Operation = std::shared_ptr<const OperationNode>;

/// A result of an operation.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Operation op, int result) : op_(std::move(op)), result_(result) {}
  const Operation& op() const { return op_; }
  int result() const { return result_; }
  const std::vector<Expr>& shape() const { return op_->result_shapes[static_cast<size_t>(result_)]; }
  int rank() const { return static_cast<int>(shape().size()); }
  DType dtype() const { return op_->result_dtypes[static_cast<size_t>(result_)]; }
  /// The element at those indices (one a dimension).
  Expr operator()(std::vector<Expr> indices) const;
  explicit operator bool() const { return op_ != nullptr; }
  friend bool operator==(const Tensor& a, const Tensor& b) {
    return a.op_ == b.op_ && a.result_ == b.result_;
  }

 private:
  Operation op_;
  int result_ = 0;
};

Tensor placeholder(std::vector<Expr> shape, DType dtype, std::string name);
/// `body` receives one variable a dimension; it may return a reduction (sum, …) as its root.
Tensor compute(std::vector<Expr> shape, const std::function<Expr(const std::vector<Expr>&)>& body,
               std::string name, Role role = Role::kNone);
/// A loop nest written by hand over inputs and results; see LoopBuilder. `gpu_body` writes launches; without one
/// the operation only runs on CPUs.
std::vector<Tensor> extern_kernel(std::vector<Tensor> inputs, std::vector<std::vector<Expr>> result_shapes,
                                  std::vector<DType> result_dtypes, std::function<void(LoopBuilder&)> body,
                                  std::string name, std::function<void(LoopBuilder&)> gpu_body = {});
IterVarPtr reduce_axis(Expr low, Expr extent, std::string name);
Expr reduce(ReduceKind kind, Expr value, std::vector<IterVarPtr> axes, Expr condition = {});
inline Expr sum(Expr value, std::vector<IterVarPtr> axes) {
  return reduce(ReduceKind::kSum, std::move(value), std::move(axes));
}
/// The shape of a tensor type as expressions.
std::vector<Expr> to_exprs(const Shape& shape);

/// Operations that `outputs` need, producers first, each once.
std::vector<Operation> topological_order(const std::vector<Tensor>& outputs);

}  // namespace gantry
