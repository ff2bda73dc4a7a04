// How families of builtins define their ops, and what each says of its own.
#pragma once

#include "host/ops/builtin.h"
#include "host/ops/support.h"

namespace gantry {

/// An op without a tensor expression; the last `optional` inputs may be absent.
OpDef define_builtin(const OpHandle& handle, std::vector<std::string> inputs, int optional,
                     std::vector<TensorType> (*infer)(const Node&, Function&));

/// As builtin_attributes, of one family's nodes.
std::optional<BuiltinAttributes> text_builtin(const Node& node);
std::optional<BuiltinAttributes> image_builtin(const Node& node);

}  // namespace gantry
