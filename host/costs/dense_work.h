// The work of a product with weights, as models see it.
#pragma once

#include "host/costs/dense_model.h"
#include "host/graph/type.h"

namespace gantry::costs {

/// Of data (…, K) times weights (K, units); `half`: with operands rounded to f16.
DenseWork dense_work(const TensorType& data, int64_t units, const MachineModel& machine, bool half);

/// Products in f16 are predicted to be faster, with what rounding the data takes.
bool prefers_half_dense(const TensorType& data, int64_t units, const MachineModel& machine);

}  // namespace gantry::costs
