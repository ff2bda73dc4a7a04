// Outputs compared with a reference, for `gantry run --expect`.
#pragma once

#include <string>
#include <vector>

#include "host/cli/tensor_text.h"

namespace gantry::cli {

/// How far an output is from its reference: max |difference| / max |expected|.
struct Deviation {
  double relative = 0;      ///< infinite where one is not finite and the other differs
  int64_t worst_index = 0;  ///< flat index of the largest difference
  bool within(double tolerance) const { return relative <= tolerance; }
};

/// Compares element by element as doubles; strings, of which one that is another is infinitely far, as they
/// are. User error if the shapes differ; the message names `source`. Equal infinities and two NaNs agree.
Deviation compare_tensors(const HostTensor& actual, const HostTensor& expected, const std::string& name,
                          const std::string& source);

}  // namespace gantry::cli
