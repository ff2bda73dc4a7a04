#include "host/target/cpu/dense_work.h"

namespace gantry::cpu {

DenseWork dense_work(const TensorType& data, int64_t units, const MachineModel& machine, bool half) {
  DenseWork work;
  work.half = half;
  work.element_bytes = byte_width(half ? DType::kF16 : data.dtype);
  work.units = units;
  work.rows = 1;
  for (size_t i = 0; i + 1 < data.shape.size(); ++i) work.rows *= data.shape[i].constant().value_or(0);
  work.depth = work.data_depth = data.shape.back().constant().value_or(256);
  if (data.shape.back().is_constant()) work.depth /= dense_depth_parts(work, machine);
  return work;
}

}  // namespace gantry::cpu
