// Attributes of ops that move data or read it by index. Axes are normalised: 0 <= axis < rank.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// reshape (a view).
struct ReshapeAttrs : AttrsOf<ReshapeAttrs> {
  Shape shape;  ///< of the result
  void fields(AttrVisitor& visit) override { visit.always("shape", shape); }
};

/// transpose: result axis i is input axis axes[i].
struct TransposeAttrs : AttrsOf<TransposeAttrs> {
  std::vector<int64_t> axes;
  void fields(AttrVisitor& visit) override { visit.always("axes", axes); }
};

/// concatenate, gather, gather_elements.
struct AxisAttrs : AttrsOf<AxisAttrs> {
  int64_t axis = 0;
  void fields(AttrVisitor& visit) override { visit("axis", axis); }
};

/// strided_slice: an entry an axis. Elements begin, begin + stride, … before end (after it for negative
/// strides, where end may be -1). Bounds are within the tensor already.
struct StridedSliceAttrs : AttrsOf<StridedSliceAttrs> {
  Shape begin, end;
  std::vector<int64_t> strides;
  void fields(AttrVisitor& visit) override {
    visit("begin", begin);
    visit("end", end);
    visit.filled("strides", strides, begin.size(), 1);
  }
};

enum class PadMode : uint8_t { kConstant, kEdge, kReflect, kWrap };
/// pad: amounts an axis, >= 0 (cutting is a slice). What is copied must be there: an axis that is padded has
/// an element, and for a reflection more than each amount; wrapping goes round as often as it takes.
struct PadAttrs : AttrsOf<PadAttrs> {
  Shape before, after;
  PadMode mode = PadMode::kConstant;
  double value = 0;
  void fields(AttrVisitor& visit) override {
    visit("before", before);
    visit("after", after);
    visit.enumeration("mode", mode, {"constant", "edge", "reflect", "wrap"});
    visit("value", value);
  }
};

/// broadcast_to: numpy broadcasting of the input to exactly this shape.
struct BroadcastToAttrs : AttrsOf<BroadcastToAttrs> {
  Shape shape;
  /// Axes of the input, ascending, of which only sizes tell whether they are 1; others that are not are as
  /// `shape` says.
  std::vector<int64_t> open;
  void fields(AttrVisitor& visit) override {
    visit.always("shape", shape);
    visit("open", open);
  }
};

struct TileAttrs : AttrsOf<TileAttrs> {
  Shape repeats;  ///< an entry an axis
  void fields(AttrVisitor& visit) override { visit("repeats", repeats); }
};

struct GatherNdAttrs : AttrsOf<GatherNdAttrs> {
  int64_t batch_dims = 0;
  void fields(AttrVisitor& visit) override { visit("batch_dims", batch_dims); }
};

/// one_hot(indices, values[2]): values[1] where the index on the new axis equals the input, else values[0].
struct OneHotAttrs : AttrsOf<OneHotAttrs> {
  int64_t axis = 0;
  Dim depth;
  void fields(AttrVisitor& visit) override {
    visit("axis", axis);
    visit("depth", depth);
  }
};

/// nn.depth_to_space, nn.space_to_depth on (N, C, H, W).
struct BlockAttrs : AttrsOf<BlockAttrs> {
  int64_t block = 1;
  bool depth_major = true;  ///< the block offset varies slower than the channel ("DCR"), else faster ("CRD")
  void fields(AttrVisitor& visit) override {
    visit("block", block);
    visit("depth_major", depth_major);
  }
};

/// trilu: keeps the upper (lower) triangle of the last two axes from diagonal k.
struct TriluAttrs : AttrsOf<TriluAttrs> {
  bool upper = true;
  Dim k = 0;
  void fields(AttrVisitor& visit) override {
    visit("upper", upper);
    visit.signed_numbers("k", k);
  }
};

/// arange (no inputs): start + i * step, i < count; integers.
struct ArangeAttrs : AttrsOf<ArangeAttrs> {
  Dim start, step, count;
  DType dtype = DType::kI64;
  void fields(AttrVisitor& visit) override {
    visit.signed_numbers("start", start);
    visit.signed_numbers("step", step);
    visit("count", count);
    visit("dtype", dtype);
  }
};

/// dims_to_tensor (no inputs): the values of dimensions as a vector of i64.
struct DimsToTensorAttrs : AttrsOf<DimsToTensorAttrs> {
  Shape dims;
  void fields(AttrVisitor& visit) override { visit.signed_numbers("dims", dims); }
};

namespace op {
// Views.
inline constexpr Op<ReshapeAttrs> reshape{"reshape"};
inline constexpr Op<NoAttrs> identity{"identity"};
// Copies.
inline constexpr Op<TransposeAttrs> transpose{"transpose"};
inline constexpr Op<AxisAttrs> concatenate{"concatenate"};
inline constexpr Op<AxisAttrs> gather{"gather"};
inline constexpr Op<AxisAttrs> gather_elements{"gather_elements"};
inline constexpr Op<StridedSliceAttrs> strided_slice{"strided_slice"};
inline constexpr Op<PadAttrs> pad{"pad"};
inline constexpr Op<BroadcastToAttrs> broadcast_to{"broadcast_to"};
inline constexpr Op<TileAttrs> tile{"tile"};
inline constexpr Op<GatherNdAttrs> gather_nd{"gather_nd"};
inline constexpr Op<OneHotAttrs> one_hot{"one_hot"};
inline constexpr Op<TriluAttrs> trilu{"trilu"};
// Without inputs.
inline constexpr Op<ArangeAttrs> arange{"arange"};
inline constexpr Op<DimsToTensorAttrs> dims_to_tensor{"dims_to_tensor"};
}  // namespace op

namespace nn {
inline constexpr Op<NoAttrs> dropout{"nn.dropout"};
inline constexpr Op<BlockAttrs> depth_to_space{"nn.depth_to_space"};
inline constexpr Op<BlockAttrs> space_to_depth{"nn.space_to_depth"};
}  // namespace nn

}  // namespace gantry
