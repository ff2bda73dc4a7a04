// Nodes that change shapes in front of another node.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "host/ops/movement.h"
#include "host/ops/op.h"

namespace gantry {

/// Inserts reshapes in front of one node.
class Reshaper {
 public:
  Reshaper(Function& function, const Node& before) : function_(function), before_(before) {}

  Value* reshape(Value* value, Shape shape) {
    if (value->type.shape == shape) return value;
    auto attrs = std::make_shared<ReshapeAttrs>();
    attrs->shape = std::move(shape);
    return add("reshape", attrs, {value});
  }
  Value* add(std::string_view op, std::shared_ptr<const Attrs> attrs, std::vector<Value*> inputs) {
    return infer_and_add(function_, op, std::move(attrs), std::move(inputs), before_.origin, &before_)
        ->result();
  }

 private:
  Function& function_;
  const Node& before_;
};

}  // namespace gantry
