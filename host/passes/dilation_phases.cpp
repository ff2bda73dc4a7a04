#include "host/passes/dilation_phases.h"

#include "host/ops/movement.h"
#include "host/support/divide.h"

namespace gantry {

std::optional<DilationPhases> dilation_phases(const ConvAttrs& attrs, const TensorType& data,
                                              const TensorType& result) {
  if (attrs.spatial_rank() != 2 || !attrs.as_in_model()) return std::nullopt;
  const int64_t dilation = attrs.dilations[0];
  DilationPhases phases{attrs, data, result};
  const Dim count = data.shape[0] * (dilation * dilation);
  phases.data.shape[0] = phases.result.shape[0] = count;
  for (size_t i = 0; i < 2; ++i) {
    const Dim &extent = data.shape[2 + i], &results = result.shape[2 + i];
    const bool fits = dilation > 1 && attrs.dilations[i] == dilation && attrs.strides[i] == 1 &&
                      extent.is_constant() && results.is_constant() && attrs.padding[i].is_constant() &&
                      attrs.padding[2 + i].is_constant() && attrs.padding[i].value() >= 0 &&
                      attrs.padding[2 + i].value() >= 0;
    if (!fits) return std::nullopt;
    const int64_t each = ceil_div(results.value(), dilation);
    phases.attrs.dilations[i] = 1;
    phases.attrs.padding[i] = phases.attrs.padding[2 + i] = Dim(0);
    phases.result.shape[2 + i] = each;
    phases.data.shape[2 + i] = each + attrs.kernel[i] - 1;
  }
  return phases;
}

Value* split_phases(WeightPacker& nodes, const ConvAttrs& attrs, const DilationPhases& phases, Value* image) {
  const Shape& from = image->type.shape;
  const int64_t d = attrs.dilations[0];
  const Dim lines = phases.data.shape[2], columns = phases.data.shape[3];
  auto pad = std::make_shared<PadAttrs>();
  pad->before = {0, attrs.padding[0], attrs.padding[1], 0};
  pad->after = {0, lines * d - attrs.padding[0] - from[1], columns * d - attrs.padding[1] - from[2], 0};
  Value* padded = nodes.add(op::pad, {image}, pad);
  Value* apart =
      nodes.transpose(nodes.reshape(padded, {from[0], lines, d, columns, d, from[3]}), {0, 2, 4, 1, 3, 5});
  return nodes.reshape(apart, {phases.data.shape[0], lines, columns, from[3]});
}

Value* join_phases(WeightPacker& nodes, const ConvAttrs& attrs, const TensorType& result, Value* phases) {
  const Shape& from = phases->type.shape;
  const int64_t d = attrs.dilations[0];
  const Dim& images = result.shape[0];
  Value* apart = nodes.reshape(phases, {images, d, d, from[1], from[2], from[3]});
  Value* together =
      nodes.reshape(nodes.transpose(apart, {0, 3, 1, 4, 2, 5}), {images, from[1] * d, from[2] * d, from[3]});
  auto part = std::make_shared<StridedSliceAttrs>();
  part->begin.assign(4, Dim(0));
  part->end = {images, result.shape[2], result.shape[3], from[3]};
  part->strides.assign(4, 1);
  return together->type.shape == part->end ? together : nodes.add(op::strided_slice, {together}, part);
}

}  // namespace gantry
