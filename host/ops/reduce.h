// Attributes of reductions.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// sum, mean, max, min, prod, all, any. Of floats among which is a NaN, max and min are NaN.
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

namespace op {
inline constexpr Op<ReduceAttrs> sum{"sum"};
inline constexpr Op<ReduceAttrs> prod{"prod"};
inline constexpr Op<ReduceAttrs> max{"max"};
inline constexpr Op<ReduceAttrs> min{"min"};
inline constexpr Op<ReduceAttrs> all{"all"};
inline constexpr Op<ReduceAttrs> any{"any"};
inline constexpr Op<ReduceAttrs> mean{"mean"};
inline constexpr Op<ArgReduceAttrs> argmax{"argmax"};
inline constexpr Op<ArgReduceAttrs> argmin{"argmin"};
inline constexpr Op<CumsumAttrs> cumsum{"cumsum"};
inline constexpr Op<CumsumAttrs> cumprod{"cumprod"};
}  // namespace op

}  // namespace gantry
