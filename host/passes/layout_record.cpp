#include "host/passes/layout_record.h"

#include "host/support/error.h"

namespace gantry {

std::string_view name_of(LayoutWish wish) {
  switch (wish) {
    case LayoutWish::kChannelsLast:
      return "channels last";
    case LayoutWish::kModelOrder:
      return "channels first";
    case LayoutWish::kPackedWeight:
      return "packed weight";
    case LayoutWish::kDilationPhases:
      return "phases of a dilation";
  }
  internal_error("unknown layout");
}

void LayoutRecord::merge(const Node& first, const Node& then, const Node& made) {
  const LayoutConversion* known = find(then) ? find(then) : find(first);
  if (known != nullptr) put(made, LayoutConversion(*known));
}

const LayoutConversion* LayoutRecord::find(const Node& node) const {
  const auto found = by_attrs_.find(node.attrs);
  return found == by_attrs_.end() ? nullptr : &found->second;
}

}  // namespace gantry
