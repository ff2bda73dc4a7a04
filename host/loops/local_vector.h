// Vectors in local buffers, for passes that ask which elements a store reaches.
#pragma once

#include <optional>

#include "host/loops/stmt.h"
#include "host/tensor/fold.h"

namespace gantry {

/// Elements [first, end) of a buffer.
struct Elements {
  int64_t first = 0, end = 0;
  auto operator<=>(const Elements&) const = default;
};

/// Those of a vector of a local buffer, where they are known and all lie in it.
inline std::optional<Elements> elements_of(const BufferNode& buffer, const Expr& index) {
  const auto* ramp = index.as<RampNode>();
  if (!ramp || buffer.scope != BufferScope::kLocal || constant_of(ramp->stride) != 1) return std::nullopt;
  const auto first = constant_of(ramp->base), count = constant_of(buffer.element_count);
  const int64_t lanes = index.type().lanes;
  if (!first || !count || *first < 0 || *first + lanes > *count) return std::nullopt;
  return Elements{*first, *first + lanes};
}

}  // namespace gantry
