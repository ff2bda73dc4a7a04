// Ops that are calls of the runtime's builtins (device_runtime/src/builtins.h): host-like work, on the CPU,
// that is no kernel. A builtin's name is the op's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device_runtime/src/module_format.h"
#include "host/graph/graph.h"

namespace gantry {

/// What a step of a plan says of a builtin that it calls, beside its tensors.
struct BuiltinAttributes {
  std::vector<int64_t> integers;
  std::string text;
  const char* feature = module_format::kStrings;  ///< what the module requires of its runtime
};
/// Of a node that is a call of a builtin; nothing of others. Integers may still depend on symbols that the
/// tensors' shapes have: those are not among them.
std::optional<BuiltinAttributes> builtin_attributes(const Node& node);
inline bool is_builtin(const Node& node) {
  return builtin_attributes(node).has_value();
}
/// Whether any node of the function, or of functions that its control flow calls, is one.
bool calls_builtins(const Function& function);

}  // namespace gantry
