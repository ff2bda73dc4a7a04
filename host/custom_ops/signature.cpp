// The type rule of a custom op.
#include "host/custom_ops/signature.h"

#include <algorithm>
#include <map>

#include "host/ops/support.h"

namespace gantry {
namespace {

class SignatureMatch {
 public:
  SignatureMatch(const Signature& signature, const Node& node, Function& function)
      : signature_(signature), node_(node), function_(function) {}

  void take_attributes(const std::vector<CustomAttribute>& attributes) {
    for (const CustomAttribute& attribute : attributes) {
      const auto* integers = std::get_if<std::vector<int64_t>>(&attribute.values);
      if (integers != nullptr && !attribute.is_list) dims_[attribute.name] = Dim(integers->front());
    }
  }

  void take_input(const TensorPattern& pattern, const TensorType& type) {
    take_type(pattern, type.dtype);
    const size_t own = pattern.dims.size();
    const bool fits = pattern.leading ? type.shape.size() >= own : type.shape.size() == own;
    ops::require(fits, "its input {} is {}, of {} dimensions, and {}{} are asked for", pattern.name,
                 type.str(), type.rank(), pattern.leading ? "at least " : "", own);
    const auto middle = type.shape.end() - static_cast<std::ptrdiff_t>(own);
    if (pattern.leading) take_leading(pattern, Shape(type.shape.begin(), middle));
    for (size_t i = 0; i < own; ++i)
      take_dim(pattern, pattern.dims[i], middle[static_cast<std::ptrdiff_t>(i)]);
  }

  TensorType output(const TensorPattern& pattern) const {
    const auto variable = types_.find(pattern.type);
    TensorType type{variable == types_.end() ? *parse_dtype(pattern.type) : variable->second, {}};
    if (pattern.leading) type.shape = *leading_;
    for (const Dim& dim : pattern.dims) {
      type.shape.push_back(dim.substitute(dims_));
      expect_size(type.shape.back(), "its output " + pattern.name);
    }
    return type;
  }

  Dim scratch() const {
    return signature_.scratch ? sized(*signature_.scratch, "its scratch memory") : Dim(0);
  }
  Dim of(const Dim& dim) const { return dim.substitute(dims_); }
  Dim sized(const Dim& dim, const std::string& what) const {
    const Dim size = of(dim);
    expect_size(size, what);
    return size;
  }

 private:
  void expect_size(const Dim& dim, const std::string& what) const {
    ops::require(!dim.is_constant() || dim.value() >= 0, "{} would be of the size {}", what, dim.str());
  }

  void take_type(const TensorPattern& pattern, DType dtype) {
    const auto variable = std::ranges::find_if(
        signature_.types, [&](const TypeVariable& type) { return type.name == pattern.type; });
    if (variable == signature_.types.end()) {
      ops::require(parse_dtype(pattern.type) == dtype, "its input {} is of {}, not of {}", pattern.name,
                   name_of(dtype), pattern.type);
      return;
    }
    std::string names;
    for (const DType type : variable->types)
      names += (names.empty() ? "" : ", ") + std::string(name_of(type));
    ops::require(std::ranges::find(variable->types, dtype) != variable->types.end(),
                 "its input {} is of {}, and it takes {}", pattern.name, name_of(dtype), names);
    const auto [known, is_new] = types_.try_emplace(pattern.type, dtype);
    ops::require(known->second == dtype, "its input {} is of {}, and an input before it of {}", pattern.name,
                 name_of(dtype), name_of(known->second));
  }

  void take_leading(const TensorPattern& pattern, Shape dims) {
    if (!leading_) {
      leading_ = std::move(dims);
      return;
    }
    ops::require(leading_->size() == dims.size(),
                 "its input {} has {} dimensions in front, and an input before it {}", pattern.name,
                 dims.size(), leading_->size());
    for (size_t i = 0; i < dims.size(); ++i) (*leading_)[i] = unified((*leading_)[i], dims[i], pattern);
  }

  void take_dim(const TensorPattern& pattern, const Dim& wanted, const Dim& dim) {
    if (wanted.is_symbol() && !dims_.contains(wanted.str())) {
      dims_[wanted.str()] = dim;
      return;
    }
    const Dim known = unified(wanted.substitute(dims_), dim, pattern);
    if (wanted.is_symbol()) dims_[wanted.str()] = known;
  }

  Dim unified(const Dim& a, const Dim& b, const TensorPattern& pattern) {
    const std::string what = "dimensions of its input " + pattern.name;
    return ops::unify(a, b, function_, node_, what.c_str());
  }

  const Signature& signature_;
  const Node& node_;
  Function& function_;
  std::map<std::string, Dim> dims_;
  std::map<std::string, DType> types_;
  std::optional<Shape> leading_;
};

}  // namespace

SignatureResult apply_signature(const Signature& signature, const Node& node,
                                const std::vector<CustomAttribute>& attributes, Function& function) {
  SignatureMatch match(signature, node, function);
  match.take_attributes(attributes);
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const TensorPattern& pattern = signature.inputs[i];
    if (ops::has_input(node, i) && !pattern.type.empty()) match.take_input(pattern, node.inputs[i]->type);
  }
  SignatureResult result;
  for (const TensorPattern& pattern : signature.outputs) {
    result.outputs.push_back(pattern.type.empty() ? TensorType() : match.output(pattern));
  }
  result.scratch = match.scratch();
  for (const Dim& dim : signature.blocks)
    result.blocks.push_back(match.sized(dim, "the blocks of its launch"));
  for (const Dim& dim : signature.sizes) result.sizes.push_back(match.of(dim));
  return result;
}

}  // namespace gantry
