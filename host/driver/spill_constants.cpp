#include "host/driver/spill_constants.h"

#include <memory>
#include <span>
#include <vector>

namespace gantry {
namespace {

// Of smaller ones there are many, which together are little.
constexpr size_t kLeastBytes = size_t{256} << 10;
// Less is not worth the time of writing it twice.
constexpr size_t kLeastTotal = size_t{64} << 20;

bool may_go(const Value& value) {
  const ConstantPtr& constant = value.constant;
  return constant->size >= kLeastBytes && value.type.dtype != DType::kString && constant.use_count() == 1 &&
         constant->owner.use_count() == 1 && !is_spilled(constant->owner);
}

}  // namespace

void spill_constants(Graph& graph, SpillFile& file) {
  std::vector<Value*> large;
  size_t total = 0;
  for (Value* value : graph.main.constants()) {
    if (!may_go(*value)) continue;
    large.push_back(value);
    total += value->constant->size;
  }
  if (total < kLeastTotal) return;
  for (Value* value : large) {
    const ConstantData& constant = *value->constant;
    auto bytes = file.keep(std::span(constant.bytes, constant.size));
    if (bytes == nullptr) return;
    auto kept = std::make_shared<ConstantData>();
    kept->type = constant.type;
    kept->bytes = bytes.get();
    kept->size = constant.size;
    kept->owner = std::move(bytes);
    value->constant = std::move(kept);
  }
}

}  // namespace gantry
