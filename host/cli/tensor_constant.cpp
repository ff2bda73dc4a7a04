#include "host/cli/tensor_constant.h"

#include "host/compiler/string_tensors.h"
#include "host/support/error.h"
#include "host/support/unsupported.h"

namespace gantry::cli {

HostTensor to_host_tensor(const ConstantData& constant) {
  HostTensor tensor{*parse_type_name(name_of(constant.type.dtype)), {}, {}};
  for (const Dim& dim : constant.type.shape) tensor.shape.push_back(dim.value());
  if (constant.type.dtype == DType::kString) {
    tensor.bytes = packed_strings(constant);
    return tensor;
  }
  tensor.bytes.assign(constant.bytes, constant.bytes + constant.size);
  return tensor;
}

ConstantPtr to_constant(const HostTensor& tensor) {
  const std::string name = type_name(tensor.type);
  const auto dtype = parse_dtype(name);
  if (!dtype) {
    throw Unsupported(UnsupportedKind::kElementType, name,
                      fmt::format("a tensor has the element type {}, which gantry does not support", name));
  }
  TensorType type{*dtype, {}};
  for (const int64_t size : tensor.shape) type.shape.push_back(size);
  if (*dtype == DType::kString) return string_constant(type.shape, tensor.bytes);
  internal_check(static_cast<int64_t>(tensor.bytes.size()) == byte_count(tensor.type, tensor.shape),
                 "a tensor's bytes do not match its shape");
  return make_constant(type, tensor.bytes.data());
}

}  // namespace gantry::cli
