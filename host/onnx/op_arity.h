// How many inputs and outputs the ops of ONNX and of ONNX Runtime have at most.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace gantry {

struct OpArity {
  int inputs = 0, outputs = 0;
  friend bool operator==(const OpArity&, const OpArity&) = default;
};
/// Of variadic inputs and outputs.
inline constexpr int kAnyNumber = std::numeric_limits<int>::max();

/// Of the op's newest definition not above `opset` of the domain (empty: ai.onnx); nothing for an op that is
/// not listed.
std::optional<OpArity> largest_arity(std::string_view domain, std::string_view op, int64_t opset);

}  // namespace gantry
