// What schedule rules of all targets ask of tensor expressions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/costs/unfit_knob.h"
#include "host/tensor/schedule.h"
#include "host/tensor/simplify.h"

namespace gantry::analysis {

bool is_reduction(const OperationNode& op);
bool is_compute(const OperationNode& op);
std::optional<int64_t> constant_extent(const Expr& e);
/// A knob of the schedule, of the node that `op` is part of; `otherwise` where it is not given: the rule chooses.
int64_t given_knob(const OperationNode& op, std::string_view name, int64_t otherwise = 0);
/// User error (KnobMisfit): a given knob's value is none that the kernel can be computed with.
[[noreturn]] void refuse_knob(const OperationNode& op, std::string_view name, int64_t value, const std::string& why);
[[noreturn]] void refuse_knob(const OperationNode& op, const costs::UnfitKnob& knob);
/// Product of the extents if all are constant.
std::optional<int64_t> constant_volume(const std::vector<IterVarPtr>& axes);
/// By how many elements a read moves when `var` grows by one, for the worst read of the body: 0 if no read
/// depends on it, 1 if every read that does is contiguous in it, nothing otherwise.
std::optional<int> read_stride(const OperationNode& op, const Expr& var);
std::optional<int> read_stride(const Expr& body, const Expr& var);
/// Functions evaluated for one element, exp and the like counted as 16 operations.
int element_cost(const Expr& body);
/// The index is the variable of the reader's axis, or 0 where that axis has one element, as broadcasting
/// reads it. What is read may be longer along it: who needs equal extents compares them.
bool is_index_of(const Expr& index, const IterVar& axis);
/// True if every read of the body that is not a scalar uses exactly the data axes in order.
bool reads_own_index(const OperationNode& op);
/// And the body does not use its position otherwise: it is a function of the elements alone.
bool reads_same_index(const OperationNode& op);
/// The first stage of that role; null if there is none.
Stage* stage_of(const Schedule& schedule, Role role);
/// The stages that read `op`'s results.
std::vector<const OperationNode*> readers_of(const Schedule& schedule, const OperationNode& op);
/// The stage's result leaves the kernel.
bool is_output(const Schedule& schedule, const OperationNode& op);

}  // namespace gantry::analysis
