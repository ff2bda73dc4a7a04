// Elementwise and broadcasting ops.
#pragma once

#include "host/ops/activation.h"
#include "host/ops/elementwise_attrs.h"
#include "host/ops/unary.h"

namespace gantry {

namespace op {
// Of two operands that are broadcast, and where(condition, a, b).
inline constexpr Op<NoAttrs> add{"add"};
inline constexpr Op<NoAttrs> subtract{"subtract"};
inline constexpr Op<NoAttrs> multiply{"multiply"};
inline constexpr Op<NoAttrs> divide{"divide"};
inline constexpr Op<NoAttrs> maximum{"maximum"};
inline constexpr Op<NoAttrs> minimum{"minimum"};
inline constexpr Op<NoAttrs> power{"power"};
inline constexpr Op<ModAttrs> mod{"mod"};
inline constexpr Op<NoAttrs> less{"less"};
inline constexpr Op<NoAttrs> less_equal{"less_equal"};
inline constexpr Op<NoAttrs> greater{"greater"};
inline constexpr Op<NoAttrs> greater_equal{"greater_equal"};
inline constexpr Op<NoAttrs> equal{"equal"};
inline constexpr Op<NoAttrs> not_equal{"not_equal"};
inline constexpr Op<NoAttrs> logical_and{"logical_and"};
inline constexpr Op<NoAttrs> logical_or{"logical_or"};
inline constexpr Op<NoAttrs> logical_xor{"logical_xor"};
inline constexpr Op<NoAttrs> bitwise_and{"bitwise_and"};
inline constexpr Op<NoAttrs> bitwise_or{"bitwise_or"};
inline constexpr Op<NoAttrs> bitwise_xor{"bitwise_xor"};
inline constexpr Op<NoAttrs> shift_left{"shift_left"};
inline constexpr Op<NoAttrs> shift_right{"shift_right"};
inline constexpr Op<NoAttrs> where{"where"};
}  // namespace op

namespace nn {
/// x where it is not negative, else x * slope.
inline constexpr Op<NoAttrs> prelu{"nn.prelu"};
}  // namespace nn

}  // namespace gantry
