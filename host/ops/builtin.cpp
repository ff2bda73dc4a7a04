#include "host/ops/builtin.h"

#include <algorithm>

#include "host/ops/builtin_def.h"
#include "host/ops/control.h"

namespace gantry {

std::optional<BuiltinAttributes> builtin_attributes(const Node& node) {
  if (auto of_text = text_builtin(node)) return of_text;
  return image_builtin(node);
}

bool calls_builtins(const Function& function) {
  return std::ranges::any_of(function.nodes(), [](const Node* node) {
    return is_builtin(*node) ||
           (is_control_flow(*node) &&
            std::ranges::any_of(node->bodies, [](const auto& b) { return calls_builtins(*b); }));
  });
}

OpDef define_builtin(const OpHandle& handle, std::vector<std::string> inputs, int optional,
                     std::vector<TensorType> (*infer)(const Node&, Function&)) {
  OpDef op = ops::define(handle, FusionClass::kOpaque, LayoutBehaviour::kNone, std::move(inputs), optional);
  op.infer = infer;
  op.keeps_types = true;
  op.flops = [](const Node&) { return Dim(0); };
  return op;
}

}  // namespace gantry
