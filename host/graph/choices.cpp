#include "host/graph/choices.h"

#include "host/graph/graph.h"

namespace gantry {

bool has_choices(const Node& node) {
  const auto defaults = node.op->handle->make_attrs();
  return defaults != nullptr && !texts(*node.attrs, *defaults).choices.empty();
}

}  // namespace gantry
