#include "host/targets/common/attention_policy.h"

#include <algorithm>

namespace gantry {

AttentionPolicy make_attention_policy(const Target& target) {
  AttentionPolicy policy;
  policy.lanes = std::max(1, target.machine.vector_bytes / 4);
  policy.registers = target.machine.vector_registers;
  return policy;
}

}  // namespace gantry
