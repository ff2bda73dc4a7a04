// What a stage's loops ask the memory for before they need it.
#pragma once

#include <cstdint>
#include <vector>

#include "host/tensor/tensor.h"

namespace gantry {

/// See Stage::prefetch.
struct PrefetchHint {
  IterVarPtr at;
  Tensor tensor;
  std::vector<Expr> indices;
};

/// See Stage::fetch_next.
struct FetchAhead {
  Operation source;
  IterVarPtr axis;
  int64_t elements = 0;
};

struct Prefetches {
  std::vector<PrefetchHint> hints;
  std::vector<FetchAhead> ahead;
};

}  // namespace gantry
