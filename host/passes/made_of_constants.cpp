#include "host/passes/made_of_constants.h"

#include <unordered_set>
#include <vector>

namespace gantry {

bool is_made_of_constants(const Value& value, bool (*may_make)(const Node& node)) {
  std::vector<const Value*> open{&value};
  std::unordered_set<const Value*> seen;
  while (!open.empty()) {
    const Value* next = open.back();
    open.pop_back();
    if (next == nullptr || next->is_constant() || !seen.insert(next).second) continue;
    const Node* maker = next->producer;
    if (maker == nullptr || !may_make(*maker)) return false;
    open.insert(open.end(), maker->inputs.begin(), maker->inputs.end());
  }
  return true;
}

}  // namespace gantry
