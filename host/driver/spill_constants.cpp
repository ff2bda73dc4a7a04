#include "host/driver/spill_constants.h"

#include <utility>
#include <vector>

#include "host/graph/spilled_constant.h"

namespace gantry {

void spill_constants(Graph& graph, SpillFile& file) {
  std::vector<Value*> large;
  size_t total = 0;
  for (Value* value : graph.main.constants()) {
    if (!may_spill(value->constant)) continue;
    large.push_back(value);
    total += value->constant->size;
  }
  if (total < kLargeTogether) return;
  for (Value* value : large) value->constant = spilled(std::move(value->constant), file);
}

}  // namespace gantry
