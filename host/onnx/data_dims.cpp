#include "host/onnx/data_dims.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "host/onnx/dim_bounds.h"
#include "host/onnx/importer.h"
#include "host/onnx/node_import.h"
#include "host/ops/bind_dims.h"
#include "host/ops/builder.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

bool is_integer(DType dtype) {
  return dtype == DType::kI64 || dtype == DType::kI32;
}

bool casts_integers(const Node& node) {
  return node.is(op::cast) && is_integer(node.inputs[0]->type.dtype);
}

bool has_known_count(const Value* value) {
  return element_count(value->type.shape).is_constant();
}

/// A constant's elements in row-major order, if it is a short tensor of integers.
std::optional<Contents> contents_in_order(const ConstantData& constant) {
  ConstantData flat = constant;
  flat.type.shape = {element_count(flat.type.shape)};
  return contents_of(flat);
}

/// The elements that are constants and dimensions of tensors, and nothing for those that may be any data.
using KnownElements = std::vector<std::optional<Dim>>;

KnownElements known_elements(const Value& value) {
  const auto of_shape = [](const Shape& dims) { return KnownElements(dims.begin(), dims.end()); };
  const auto count = element_count(value.type.shape).constant();
  KnownElements none(static_cast<size_t>(count.value_or(0)));
  if (value.is_constant()) {
    const auto contents = contents_in_order(*value.constant);
    return contents ? of_shape(contents->dims) : none;
  }
  if (value.producer == nullptr) return none;
  const Node& maker = *value.producer;
  if (const auto* attrs = maker.match(op::dims_to_tensor)) return of_shape(attrs->dims);
  const bool same = maker.is(op::reshape) || maker.is(op::identity) || casts_integers(maker);
  if (!same && (!maker.is(op::concatenate) || value.type.rank() != 1)) return none;
  KnownElements all;
  for (const Value* part : maker.inputs) {
    const KnownElements own = known_elements(*part);
    all.insert(all.end(), own.begin(), own.end());
  }
  // Of parts whose lengths are not known, nothing is said.
  return all.size() == none.size() ? all : none;
}

}  // namespace

std::string DataDims::symbol_of(const std::string& name, size_t element, size_t count) {
  return importer_.new_symbol(count == 1 ? name : fmt::format("{}.{}", name, element));
}

Shape DataDims::of(Value* value, Elements elements, const std::string& node) {
  // Elements that are sizes already end the run where one of them is negative.
  for (const Elements as : {elements, Elements::kSizes}) {
    if (const auto known = known_.find({value, as}); known != known_.end()) return known->second;
  }
  Shape dims;
  if (!look_through(value, elements, node, dims)) dims = bind(value, elements, node);
  // A constant that nothing reads is dropped when its body is whole, and another value may take its address.
  if (value->is_constant() && value->users.empty()) return dims;
  return known_[{value, elements}] = dims;
}

bool DataDims::look_through(Value* value, Elements elements, const std::string& node, Shape& dims) {
  if (value->is_constant()) {
    const auto known = contents_in_order(*value->constant);
    if (known) dims = known->dims;
    return known.has_value();
  }
  if (value->producer == nullptr) return false;
  const Node& maker = *value->producer;
  if (const auto* attrs = maker.match(op::dims_to_tensor)) {
    dims = attrs->dims;
    return true;
  }
  if (casts_integers(maker) && maker.inputs[0]->type.dtype == DType::kI64 &&
      value->type.dtype == DType::kI32) {
    dims = narrowed(value, elements, node);
    return true;
  }
  // The same elements in the same order.
  const bool same = maker.is(op::reshape) || maker.is(op::identity) || casts_integers(maker);
  if (same && has_known_count(maker.inputs[0])) {
    dims = of(maker.inputs[0], elements, node);
    return true;
  }
  if (!maker.is(op::concatenate) || value->type.rank() != 1) return false;
  // Where parts begin and end has to be known, and not only what their lengths add up to.
  if (!std::ranges::all_of(maker.inputs, has_known_count)) return false;
  for (Value* part : maker.inputs) {
    const Shape own = of(part, elements, node);
    dims.insert(dims.end(), own.begin(), own.end());
  }
  return true;
}

Shape DataDims::narrowed(Value* value, Elements elements, const std::string& node) {
  const KnownElements known = known_elements(*value->producer->inputs[0]);
  const bool all_known = std::ranges::all_of(known, [](const auto& dim) { return dim.has_value(); });
  Shape dims = all_known ? Shape(known.size()) : bind(value, elements, node);
  for (size_t i = 0; i < known.size(); ++i) {
    if (!known[i]) continue;
    const auto number = known[i]->constant();
    dims.at(i) = number ? Dim(wrap_integer(DType::kI32, *number)) : *known[i];
  }
  return dims;
}

Shape DataDims::bind(Value* value, Elements elements, const std::string& node) {
  auto attrs = std::make_shared<BindDimsAttrs>();
  const auto count = static_cast<size_t>(element_count(value->type.shape).value());
  Shape dims;
  for (size_t i = 0; i < count; ++i) {
    attrs->symbols.push_back(Dim::symbol(symbol_of(value->name, i, count)));
    dims.push_back(attrs->symbols.back());
    if (elements != Elements::kSigned) continue;
    attrs->negatives.push_back(Dim::symbol(symbol_of(value->name + ".below", i, count)));
    negatives_.emplace(attrs->negatives.back().str(), dims.back());
    dims.back() = dims.back() - attrs->negatives.back();
  }
  if (count > 0) Builder(importer_.function(), {node})(op::bind_dims, {value}, attrs);
  return dims;
}

bool DataDims::may_be_negative(const Dim& dim) const {
  if (dim.is_constant() || negatives_.empty()) return false;
  return std::ranges::any_of(dim.symbols(), [&](const std::string& name) { return negatives_.count(name) != 0; });
}

Dim DataDims::positive_part(const Dim& dim) const {
  if (dim.is_constant()) return std::max<int64_t>(dim.value(), 0);
  for (const std::string& name : dim.symbols()) {
    const auto pair = negatives_.find(name);
    if (pair == negatives_.end()) continue;
    const Dim &above = pair->second, below = Dim::symbol(name);
    if (dim == above - below) return above;
    if (dim == below - above) return below;
  }
  return larger(dim, 0);
}

Shape DataDims::named(Shape dims, const std::string& hint, const std::string& node) {
  auto attrs = std::make_shared<BindDimsAttrs>();
  for (Dim& dim : dims) {
    if (dim.is_constant() || dim.is_symbol()) continue;
    attrs->values.push_back(dim);
    dim = Dim::symbol(importer_.new_symbol(hint));
    attrs->symbols.push_back(dim);
  }
  if (!attrs->symbols.empty()) Builder(importer_.function(), {node})(op::bind_dims, {}, attrs);
  return dims;
}

Dim DataDims::brief(const Dim& dim, const std::string& node) {
  constexpr size_t kMostSteps = 128;
  size_t steps = 0;
  dim.visit_postfix([&](Dim::Opcode, int64_t, const std::string&) { ++steps; });
  return steps <= kMostSteps ? dim : named({dim}, "size", node)[0];
}

}  // namespace gantry
