#include "host/graph/spilled_constant.h"

#include <span>
#include <utility>

namespace gantry {

ConstantPtr constant_over(const TensorType& type, std::shared_ptr<const void> owner) {
  auto constant = std::make_shared<ConstantData>();
  constant->type = type;
  constant->bytes = static_cast<const std::byte*>(owner.get());
  constant->size = static_cast<size_t>(type.byte_size().value());
  constant->owner = std::move(owner);
  return constant;
}

SpillFile* spill_if_large(const Function& function, SpillFile* file) {
  size_t bytes = 0;
  for (const Value* value : function.constants()) bytes += value->constant->size;
  return bytes < kLargeTogether ? nullptr : file;
}

bool may_spill(const ConstantPtr& constant) {
  return constant->size >= kLeastSpilled && constant->type.dtype != DType::kString &&
         constant.use_count() == 1 && constant->owner.use_count() == 1 && !is_on_disk(constant->owner);
}

ConstantPtr spilled(ConstantPtr constant, SpillFile& file) {
  auto bytes = file.keep(std::span(constant->bytes, constant->size));
  return bytes == nullptr ? std::move(constant) : constant_over(constant->type, std::move(bytes));
}

}  // namespace gantry
