// device_copy: the same elements in another device's memory. place_devices inserts it where a value crosses.
#pragma once

#include "host/graph/op_handle.h"
#include "host/graph/graph.h"

namespace gantry {

struct DeviceCopyAttrs : AttrsOf<DeviceCopyAttrs> {
  enum class Destination : uint8_t { kCpu, kGpu } destination = Destination::kGpu;
  void fields(AttrVisitor& visit) override { visit.always("destination", destination, {"cpu", "gpu"}); }
};

/// True for nodes that are a copy between devices: a step of the plan, not a kernel.
bool is_device_copy(const Node& node);

namespace op {
inline constexpr Op<DeviceCopyAttrs> device_copy{"device_copy"};
}  // namespace op

}  // namespace gantry
