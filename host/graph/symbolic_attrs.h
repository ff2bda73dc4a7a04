// Whether attributes mention sizes that are not known.
#pragma once

#include <string_view>

#include "host/graph/attrs.h"

namespace gantry {

/// Whether a dimension or shape among the attributes has a symbol: then the node cannot be evaluated, whatever
/// its inputs are.
inline bool mentions_symbols(const Attrs& attrs) {
  struct Finder : PartialAttrVisitor {
    using PartialAttrVisitor::operator();
    void operator()(std::string_view, Dim& value) override { found = found || !value.is_constant(); }
    void operator()(std::string_view, Shape& value) override { found = found || !constant_shape(value); }
    bool found = false;
  };
  Finder finder;
  attrs.clone()->fields(finder);  // visitors may assign, so fields() is not const
  return finder.found;
}

}  // namespace gantry
