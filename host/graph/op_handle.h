// What an op is: a constant that code compares, with a name for text only.
//
//   namespace nn { inline constexpr Op<SoftmaxAttrs> softmax{"nn.softmax"}; }
//   if (const SoftmaxAttrs* attrs = node.match(nn::softmax)) …
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>

#include "host/graph/attrs.h"

namespace gantry {

/// An op without the type of its attributes. Its address is the op's identity, so handles are not copied.
class OpHandle {
 public:
  OpHandle(const OpHandle&) = delete;
  OpHandle& operator=(const OpHandle&) = delete;

  constexpr std::string_view name() const { return name_; }
  /// A new attribute struct with defaults.
  std::shared_ptr<Attrs> make_attrs() const { return make_attrs_(); }
  /// Whether the attributes are of the op's own type.
  bool takes(const Attrs& attrs) const { return typeid(attrs) == *attrs_type_; }

 protected:
  constexpr OpHandle(std::string_view name, std::shared_ptr<Attrs> (*make_attrs)(),
                     const std::type_info* attrs_type)
      : name_(name), make_attrs_(make_attrs), attrs_type_(attrs_type) {}

 private:
  std::string_view name_;
  std::shared_ptr<Attrs> (*make_attrs_)();
  const std::type_info* attrs_type_;
};

/// An op whose attributes are an AttrsType. Declared once, with the op's attributes, as an inline constant.
template <typename AttrsType>
class Op : public OpHandle {
 public:
  constexpr explicit Op(std::string_view name)
      : OpHandle(
            name, []() -> std::shared_ptr<Attrs> { return std::make_shared<AttrsType>(); },
            &typeid(AttrsType)) {}
};

/// What the graph layer knows of an op's declaration (OpDef in host/ops/op.h).
struct OpBase {
  /// A declaration that is filled in later has no handle yet.
  const OpHandle* handle = nullptr;
  std::string name;  ///< for text: the handle's
};

}  // namespace gantry
