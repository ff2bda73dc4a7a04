// Attributes of poolings: nn.max_pool, nn.avg_pool, nn.lp_pool over (N, C, spatial…) or (N, spatial…, C).
// Stages: "pad" (only where windows reach beyond the input), "pool"; averages then divide ("pool_average").
#pragma once

#include "host/graph/op_handle.h"
#include "host/ops/image.h"

namespace gantry {

struct PoolAttrs : ImageAttrsOf<PoolAttrs> {
  std::vector<int64_t> kernel, strides, dilations;
  Shape padding;  ///< begins of all spatial axes, then ends
  bool ceil_mode = false;
  bool count_include_pad = false;  ///< nn.avg_pool
  int64_t p = 2;                   ///< nn.lp_pool
  void fields(AttrVisitor& visit) override;
};

namespace nn {
inline constexpr Op<PoolAttrs> max_pool{"nn.max_pool"};
inline constexpr Op<PoolAttrs> avg_pool{"nn.avg_pool"};
inline constexpr Op<PoolAttrs> lp_pool{"nn.lp_pool"};
/// Where the elements of nn.max_pool lie among all of the data's (i64), channels first.
inline constexpr Op<PoolAttrs> max_positions{"nn.max_positions"};
}  // namespace nn

}  // namespace gantry
