// Which attributes the ops of ONNX and of ONNX Runtime have.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gantry {

/// Whether the op has the attribute, by its newest definition not above `opset` of the domain (empty: ai.onnx);
/// nothing for an op that is not listed.
std::optional<bool> has_attribute(std::string_view domain, std::string_view op, int64_t opset,
                                  std::string_view attribute);

}  // namespace gantry
