// The GPU's schedule rules, and what they share. A rule schedules one root stage, which becomes one launch, with
// what is attached to it.
#pragma once

#include <memory>
#include <vector>

#include "host/machine/target.h"
#include "host/targets/common/analysis.h"
#include "host/tensor/schedule.h"

namespace gantry::cuda {

using namespace analysis;  // NOLINT: every rule reasons with these

/// Threads of a block where a rule has no reason for another number.
constexpr int64_t kDefaultThreads = 128;

// --- shared pieces -----------------------------------------------------------------------------------------

/// Fuses adjacent axes, outermost first. Null if there are none.
IterVarPtr fuse_all(Stage& stage, const std::vector<IterVarPtr>& axes);
/// Binds the stage's data axes, which must be its outermost leaves, `threads` neighbouring elements a block.
/// Returns the threads' axis. A stage without axes is left as it is: one thread computes it (null).
IterVarPtr bind_flat(Stage& stage, const std::vector<IterVarPtr>& axes, int64_t threads);
/// Elements that one vector instruction moves, for an axis along which `body` reads at stride 0 or 1 and stores
/// values of `bytes`: 4, 2 or 1. `axis` must have a constant extent.
int64_t vector_lanes(const Expr& body, const IterVarPtr& axis, int bytes);
/// Threads that keep the whole GPU busy.
int64_t busy_threads(const GpuModel& gpu);
/// Binds threads of `threads` to all of the stage's axes, neighbours to neighbours: for a stage that all threads of a
/// block compute together.
void bind_cooperative(Stage& stage, int64_t threads);
/// The stages that read `tensor` themselves.
std::vector<Operation> direct_readers(const Schedule& schedule, const Tensor& tensor);
/// Inlines elementwise stages, padding included, except where that would repeat costly work.
void inline_elementwise(Schedule& schedule);
/// The stages that will be launches: computes at root.
std::vector<Stage*> root_stages(Schedule& schedule);

// --- parts of rules
// -------------------------------------------------------------------------------------------------

/// Matrix products (role kGemm). They are rewritten before there is a schedule.
class ProductPlan {
 public:
  /// Rewrites the products behind `outputs` as the model wants them.
  ProductPlan(std::vector<Tensor> outputs, const Target& target);
  ~ProductPlan();
  std::vector<Tensor> outputs;  ///< to schedule
  /// Schedules the products' stages; what is elementwise must have been inlined.
  void schedule(Schedule& schedule) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
/// The transformations of Winograd's algorithm, before and behind its products; nothing if there are none.
void schedule_winograd(Schedule& schedule);
/// Kernels that reduce rows: softmax, normalisations, reductions along whole axes. Rewritten like products.
class RowPlan {
 public:
  RowPlan(std::vector<Tensor> outputs, const Target& target);
  ~RowPlan();
  std::vector<Tensor> outputs;  ///< to schedule
  bool applies() const { return impl_ != nullptr; }
  /// Schedules every stage that is not inlined.
  void schedule(Schedule& schedule) const;

 private:
  struct Impl;
  void split_columns();
  std::unique_ptr<Impl> impl_;
};
/// One elementwise or data-movement stage at root.
void schedule_elementwise(Schedule& schedule, Stage& stage, const Target& target);
/// A reduction of windows (pooling, depthwise convolution) or of whatever no other rule takes, with the elementwise
/// output that follows, if that is all that reads it.
void schedule_reduction(Schedule& schedule, Stage& stage, const Target& target);

/// A schedule of launches with the elementwise stages inlined.
Schedule inlined_schedule(const std::vector<Tensor>& outputs);
/// All root stages that no rule has scheduled yet, each by itself.
void schedule_rest(Schedule& schedule, const Target& target);

}  // namespace gantry::cuda
