// Attributes of reductions.
#pragma once

#include "host/graph/attrs.h"

namespace gantry {

/// sum, mean, max, min, prod, all, any.
struct ReduceAttrs : AttrsOf<ReduceAttrs> {
  std::vector<int64_t> axes;  ///< ascending, non-negative; empty: none (the identity)
  bool keepdims = true;
  void fields(AttrVisitor& visit) override {
    visit("axes", axes);
    visit("keepdims", keepdims);
  }
};

/// argmax, argmin: i64 index of the first (or last) extreme element.
struct ArgReduceAttrs : AttrsOf<ArgReduceAttrs> {
  int64_t axis = 0;
  bool keepdims = true;
  bool select_last = false;
  void fields(AttrVisitor& visit) override {
    visit("axis", axis);
    visit("keepdims", keepdims);
    visit("select_last", select_last);
  }
};

struct CumsumAttrs : AttrsOf<CumsumAttrs> {
  int64_t axis = 0;
  bool exclusive = false, reverse = false;
  void fields(AttrVisitor& visit) override {
    visit("axis", axis);
    visit("exclusive", exclusive);
    visit("reverse", reverse);
  }
};

}  // namespace gantry
