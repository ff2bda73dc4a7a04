// Knobs of tiled matrix products on GPUs (host/targets/cuda/gemm_model.h), which all gemm forms have.
#pragma once

#include <vector>

#include "host/forms/form.h"

namespace gantry::forms {

/// At most `most` on GPUs; on CPUs there are no such blocks.
template <int64_t most>
KnobRange on_gpus(const FormCase& given) {
  return given.context.target.for_gpu() ? KnobRange{1, most} : KnobRange{0, 0};
}

inline std::vector<int64_t> powers_of_two(const FormCase&) {
  return {1, 2, 4, 8, 16, 32, 64, 128};
}

constexpr Knob kGemmRows{"block_rows", 0, "rows of a block of threads, in shared memory", on_gpus<128>, true,
                         powers_of_two};
constexpr Knob kGemmColumns{"block_columns", 0, "columns of a block of threads", on_gpus<128>, true, powers_of_two};
constexpr Knob kGemmDepth{"block_depth", 0, "of the depth that a block has in shared memory at once", on_gpus<32>, true,
                          powers_of_two};
constexpr Knob kGemmSplit{"split", 0, "parts of the depth, which a second launch adds", on_gpus<32>, true,
                          powers_of_two};

}  // namespace gantry::forms
