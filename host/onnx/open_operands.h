// Operands that broadcast along dimensions of which only the running model knows whether they are 1.
#pragma once

#include <string>
#include <vector>

#include "host/graph/graph.h"
#include "host/ops/op.h"

namespace gantry {

class DataDims;
class NodeImport;

/// ONNX lets operands broadcast as NumPy does, whatever their dimensions are called; ops of the graph take
/// different names for one size. Where sizes decide which operand is repeated (`batch` beside `unk__12`),
/// this puts a broadcast_to in front of those that may be; what they make together has a name of its own
/// (DataDims::brief) before it is long. Of an op that does not broadcast (OpDef::axes_apart) nothing changes.
void repeat_open_operands(Function& function, const OpDef& op, std::vector<Value*>& inputs,
                          const std::string& node, DataDims& names);

/// The shape to which the node expands data of the shape `own`: `wanted`, or the data's extent where the
/// wanted one is 1. A user error if they do not fit; constraints where sizes decide that.
Shape expanded_shape(NodeImport& n, const Shape& own, Shape wanted);

}  // namespace gantry
