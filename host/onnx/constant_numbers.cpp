#include "host/onnx/constant_numbers.h"

#include "host/graph/small_float.h"
#include "host/tensor/element.h"

namespace gantry {
namespace {

template <typename T>
std::vector<double> widen_all(const ConstantData& data) {
  const T* values = data.as<T>();
  return {values, values + data.size / sizeof(T)};
}

}  // namespace

std::optional<std::vector<double>> to_doubles(const ConstantData& data) {
  switch (data.type.dtype) {
    case DType::kF32:
      return widen_all<float>(data);
    case DType::kF64:
      return widen_all<double>(data);
    case DType::kI4:
    case DType::kI2:
    case DType::kI8:
      return widen_all<int8_t>(data);
    case DType::kI16:
      return widen_all<int16_t>(data);
    case DType::kI32:
      return widen_all<int32_t>(data);
    case DType::kI64:
      return widen_all<int64_t>(data);
    case DType::kU4:
    case DType::kU2:
    case DType::kU8:
      return widen_all<uint8_t>(data);
    case DType::kU16:
      return widen_all<uint16_t>(data);
    case DType::kU32:
      return widen_all<uint32_t>(data);
    case DType::kU64:
      return widen_all<uint64_t>(data);
    case DType::kBool:
      return widen_all<bool>(data);
    case DType::kF16:
    case DType::kBF16: {
      std::vector<double> values;
      for (size_t at = 0; at < data.size; at += 2)
        values.push_back(read_float(data.type.dtype, data.bytes + at));
      return values;
    }
    default: {
      if (!is_small_float(data.type.dtype)) return std::nullopt;
      std::vector<double> values;
      for (size_t at = 0; at < data.size; ++at)
        values.push_back(small_float_value(data.type.dtype, static_cast<uint8_t>(data.bytes[at])));
      return values;
    }
  }
}

}  // namespace gantry
