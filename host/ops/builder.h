// Adds nodes to a function.
//
//   const Builder b(function, node);                      // in front of `node`, of its origin
//   Value* y = b(op::multiply, {x, scale});
//   Value* z = b(op::transpose, {y}, attrs);              // attributes of another op do not compile
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "host/ops/movement.h"
#include "host/ops/op.h"

namespace gantry {

/// Where new nodes go and where they come from. Each call infers the result types; what does not fit is a user
/// error that names the origin and the op.
class Builder {
 public:
  /// At the function's end, or in front of a node.
  explicit Builder(Function& function, std::vector<std::string> origin = {}, const Node* before = nullptr)
      : function_(function), origin_(std::move(origin)), before_(before) {}
  Builder(Function& function, const Node& before) : Builder(function, before.origin, &before) {}

  /// The op's node, for ops with several results.
  template <typename AttrsType>
  Node* node(const Op<AttrsType>& op, std::vector<Value*> inputs,
             std::type_identity_t<AttrsType> attrs = {}) const {
    return add(op_set().get(op), std::make_shared<AttrsType>(std::move(attrs)), std::move(inputs));
  }
  template <typename AttrsType>
  Node* node(const Op<AttrsType>& op, std::vector<Value*> inputs,
             std::shared_ptr<const std::type_identity_t<AttrsType>> attrs) const {
    return add(op_set().get(op), std::move(attrs), std::move(inputs));
  }
  /// The op's first result.
  template <typename AttrsType>
  Value* operator()(const Op<AttrsType>& op, std::vector<Value*> inputs,
                    std::type_identity_t<AttrsType> attrs = {}) const {
    return node(op, std::move(inputs), std::move(attrs))->result();
  }
  template <typename AttrsType>
  Value* operator()(const Op<AttrsType>& op, std::vector<Value*> inputs,
                    std::shared_ptr<const std::type_identity_t<AttrsType>> attrs) const {
    return node(op, std::move(inputs), std::move(attrs))->result();
  }
  /// A node like another, its decision included, with other inputs, and with other attributes of the same type if they
  /// are given.
  Node* again(const Node& like, std::vector<Value*> inputs, std::shared_ptr<const Attrs> attrs = nullptr) const {
    Node* made = add(*like.op, attrs ? std::move(attrs) : like.attrs, std::move(inputs));
    made->decision = like.decision;
    return made;
  }
  /// For code that has the op as data. Null attributes: the op's defaults.
  Node* add(const OpBase& op, std::shared_ptr<const Attrs> attrs, std::vector<Value*> inputs) const {
    return infer_and_add(function_, op, std::move(attrs), std::move(inputs), origin_, before_);
  }

  /// A view of that shape, or the value itself if it has it.
  Value* reshape(Value* value, Shape shape) const {
    if (value->type.shape == shape) return value;
    ReshapeAttrs attrs;
    attrs.shape = std::move(shape);
    return (*this)(op::reshape, {value}, std::move(attrs));
  }
  Value* constant(std::string name_hint, ConstantPtr data) const {
    return function_.add_constant(std::move(name_hint), std::move(data));
  }

 private:
  Function& function_;
  std::vector<std::string> origin_;
  const Node* before_;
};

}  // namespace gantry
