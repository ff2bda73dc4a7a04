// Schedules: how the stages of a tensor-expression graph are computed.
//
// A Schedule holds a stage (host/tensor/stage.h) for every operation. Stages are computed at root, one after
// another, unless attached inside a consumer's loop (compute_at), or inlined. Lowering (host/loops/lower.h)
// infers the region that each attached stage must compute.
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "host/tensor/stage.h"
#include "host/tensor/tensor.h"

namespace gantry {

class Schedule {
 public:
  /// A stage for every operation that `outputs` need; all at root.
  explicit Schedule(std::vector<Tensor> outputs);
  Stage& operator[](const Operation& op);
  Stage& operator[](const Tensor& tensor) { return (*this)[tensor.op()]; }
  /// The stage that computes `op` (as first given, or as rewritten); null if this schedule has none.
  const Stage* find(const OperationNode* op) const;
  /// Computes `tensor` into a buffer of its own first (with scope); the original stage then only copies and,
  /// for a reduction, the cache holds the accumulators. Returns the cache; attach it with compute_at.
  Tensor cache_write(const Tensor& tensor, StorageScope scope);
  /// Reads of `tensor` by `readers` go through a copy. Returns the copy.
  Tensor cache_read(const Tensor& tensor, StorageScope scope, const std::vector<Operation>& readers);

  /// Root stages become launches on a GPU; hand-written operations use their GPU bodies.
  bool for_gpu = false;
  /// Who made it (host/targets/common/kernel_rules.def), for reports; empty: none of the rules.
  std::string_view rule;
  const std::vector<Tensor>& outputs() const { return outputs_; }
  /// Producers first.
  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }

 private:
  Stage* insert_before(Stage& stage, Operation op);
  std::vector<Tensor> outputs_;
  std::vector<std::unique_ptr<Stage>> stages_;
  /// Operations as first given -> as they are now after rewrites.
  std::map<const OperationNode*, Stage*> by_op_;
};

}  // namespace gantry
