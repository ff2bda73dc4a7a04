#include "host/costs/dense_work.h"

#include <algorithm>

#include "host/graph/shape_guess.h"

namespace gantry::costs {

DenseWork dense_work(const TensorType& data, int64_t units, const MachineModel& machine, bool half) {
  DenseWork work;
  work.half = half;
  work.element_bytes = byte_width(half ? DType::kF16 : data.dtype);
  work.units = units;
  work.rows = 1;
  for (size_t i = 0; i + 1 < data.shape.size(); ++i) work.rows *= data.shape[i].constant().value_or(0);
  work.depth = work.data_depth = guess::extent(data.shape.back().constant(), guess::Extent::kDepth);
  if (data.shape.back().is_constant()) work.depth /= dense_depth_parts(work, machine);
  return work;
}

bool prefers_half_dense(const TensorType& data, int64_t units, const MachineModel& machine) {
  if (!machine.half_products || data.dtype != DType::kF32) return false;
  auto cycles = [&](bool half) {
    const DenseWork work = dense_work(data, units, machine, half);
    const double parts = double(work.data_depth) / double(std::max<int64_t>(work.depth, 1));
    return parts * predicted_dense_cycles(work, choose_dense_tile(work, machine), machine);
  };
  const DenseWork work = dense_work(data, units, machine, true);
  return cycles(true) + rounding_cycles(work.rows * work.data_depth, machine) < cycles(false);
}

}  // namespace gantry::costs
