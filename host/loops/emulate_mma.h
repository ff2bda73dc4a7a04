// Tensor-core instructions as loops. Private to host/loops.
#pragma once

#include <functional>
#include <utility>

#include "host/loops/stmt.h"

namespace gantry {

/// Where element `element` of a fragment lies for the thread `lane` of a warp: a buffer and an index into it.
using FragmentElement = std::function<std::pair<Buffer, Expr>(const Expr& lane, int64_t element)>;

/// d += a * b for one warp, whose lanes hold the fragments as mma.sync's description in the PTX ISA lays them
/// out
/// ("Matrix Fragments for mma.m16n8k8" and "… mma.m16n8k16").
Stmt mma_loops(MmaShape shape, const FragmentElement& d, const FragmentElement& a, const FragmentElement& b);

}  // namespace gantry
