// The strings that a session is given.
#include <algorithm>

#include "device_runtime/src/builtins.h"
#include "device_runtime/src/session.h"

namespace gantry::runtime {

Status Session::set_strings(int index, std::span<const int64_t> shape, std::span<const std::byte> packed) {
  GANTRY_TRY(check_index(index, inputs_.size(), "input"));
  const module_format::TensorInfo& info = *module_->manifest().inputs()->Get(static_cast<uint32_t>(index));
  if (info.dtype() != module_format::DType::String)
    return failure(GANTRY_INVALID_ARGUMENT, "input '%s': expected %s, got strings", info.name()->c_str(),
                   element_name(static_cast<ElementType>(info.dtype())));
  Result<std::span<std::byte>> storage = input_storage(index, shape);
  if (!storage.ok()) return storage.status();
  const Status status =
      strings_->set_input(static_cast<uint32_t>(index), storage->size() / sizeof(uint64_t), packed);
  if (status.ok()) return status;
  inputs_[static_cast<size_t>(index)].is_set = false;
  return Status(status.code(), std::string("input '") + info.name()->c_str() + "': " + status.message());
}

Status Session::write_strings() {
  if (strings_ == nullptr) return Status();
  // At least what one string takes: 0 would ask for the usual limit.
  const uint64_t left = memory_limit_ - std::min(io_bytes(), memory_limit_);
  GANTRY_TRY(strings_->begin_run(memory_limit_ == 0 ? 0 : std::max<uint64_t>(left, 1)));
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    if (module_->manifest().inputs()->Get(i)->dtype() != module_format::DType::String) continue;
    auto* numbers = reinterpret_cast<uint64_t*>(inputs_[i].data);
    GANTRY_TRY(strings_->write_input(i, numbers, inputs_[i].bytes / sizeof(uint64_t)));
  }
  return Status();
}

}  // namespace gantry::runtime
