// Plans' calls of builtins.
#include "device_runtime/src/builtins.h"
#include "device_runtime/src/plan_frame.h"

namespace gantry::runtime {

Status PlanFrame::call_builtin(const module_format::CallBuiltin& step) {
  const uint32_t inputs = step.inputs() == nullptr ? 0 : step.inputs()->size();
  const uint32_t count = inputs + (step.outputs() == nullptr ? 0 : step.outputs()->size());
  std::vector<BuiltinTensor> tensors(count);
  std::vector<std::vector<int64_t>> shapes(count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto& tensor = *(i < inputs ? step.inputs()->Get(i) : step.outputs()->Get(i - inputs));
    Result<Range> range = range_of(tensor.buffer());
    if (!range.ok()) return range.status();
    for (uint32_t dim : *tensor.shape()) {
      Result<uint64_t> size = context_.dims.get_size(dim);
      if (!size.ok()) return size.status();
      shapes[i].push_back(static_cast<int64_t>(*size));
    }
    const auto type = static_cast<ElementType>(tensor.dtype());
    uint64_t bytes = 0;
    if (!dense_bytes(shapes[i], type, &bytes) || bytes > range->bytes)
      return buffer_outside(tensor.buffer(), "what a builtin is given", bytes, range->bytes);
    tensors[i] = {type, shapes[i], range->data, bytes / element_bytes(type)};
  }
  BuiltinCall call{step.function()->string_view(),
                   {tensors.data(), inputs},
                   {tensors.data() + inputs, count - inputs},
                   {},
                   {},
                   context_.memory->strings()};
  if (step.integers() != nullptr) call.integers = {step.integers()->data(), step.integers()->size()};
  if (step.text() != nullptr) call.text = step.text()->string_view();
  const Status status = builtin_part()->call(call);
  if (status.ok()) return status;
  return Status(status.code(), text_of(step.origin()) + ": " + status.message());
}

}  // namespace gantry::runtime
