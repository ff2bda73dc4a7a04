// Sizes of dimensions from Python: a number, or (low, high).
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <utility>

#include "host/graph/fix_sizes.h"

namespace pybind11::detail {

template <>
struct type_caster<gantry::GivenSize> {
  PYBIND11_TYPE_CASTER(gantry::GivenSize, const_name("int | tuple[int, int]"));

  bool load(handle source, bool) {
    if (isinstance<tuple>(source)) {
      const auto [low, high] = source.cast<std::pair<int64_t, int64_t>>();
      value = gantry::DimRange{low, high};
    } else {
      value = source.cast<int64_t>();
    }
    return true;
  }
};

}  // namespace pybind11::detail
