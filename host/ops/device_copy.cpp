#include "host/ops/device_copy.h"

#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {

void add_device_copy_op(OpSet& set) {
  OpDef op =
      ops::define<DeviceCopyAttrs>("device_copy", FusionClass::kOpaque, LayoutBehaviour::kNone, {"data"});
  op.infer = ops::same_as_first;
  // For interpreters: between devices, elements stay what they are.
  op.compute = [](const Node&, const std::vector<Tensor>& in) {
    return std::vector<Tensor>{
        ops::map_elements(in[0], in[0].dtype(), "device_copy", [](Expr x) { return x; })};
  };
  op.flops = [](const Node&) { return Dim(0); };
  set.add(std::move(op));
}

bool is_device_copy(const Node& node) {
  return dynamic_cast<const DeviceCopyAttrs*>(node.attrs.get()) != nullptr;
}

}  // namespace gantry
