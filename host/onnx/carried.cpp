#include "host/onnx/carried.h"

#include <algorithm>

namespace gantry {
namespace {

using Kind = Carried::Kind;

Value* bool_value(NodeImport& n, bool value) {
  return n.constant_value(make_constant({DType::kBool, {}}, &value), "has_value");
}

/// The value alone, without what says whether it is there.
std::vector<Value*> carry_value(NodeImport& n, const Binding& binding, const Carried& as) {
  if (as.kind == Kind::kTensor) {
    if (binding.absent) return {nothing(n, as.elements[0].dtype, as.elements[0].rank)};
    Binding tensor = binding;
    tensor.has_value = nullptr;
    return {n.data_of(tensor)};
  }
  if (as.kind == Kind::kLate) {
    Binding sequence = binding;
    if (binding.absent) sequence.sequence = std::make_shared<const std::vector<Binding>>();
    const LateSequence late = late_sequence(n, sequence, as.elements[0]);
    return {late.elements, late.dims};
  }
  std::vector<Value*> tensors;
  if (as.kind == Kind::kSequence) {
    for (const Binding& element : *binding.sequence) tensors.push_back(n.data_of(element));
  }
  return tensors;
}

}  // namespace

size_t Carried::count() const {
  const size_t own = kind == Kind::kTensor     ? 1
                     : kind == Kind::kLate     ? 2
                     : kind == Kind::kSequence ? elements.size()
                                               : 0;
  return own + (optional ? 1 : 0);
}

Carried carried_as(NodeImport& n, const Binding& binding) {
  Carried carried;
  const auto kind_of_tensor = [&](const Binding& tensor) {
    const TensorType type = n.type_of(tensor);
    return ElementKind{type.dtype, type.rank(), false};
  };
  carried.optional = binding.has_value != nullptr;
  if (binding.absent) {
    carried.kind = Kind::kAbsent;
  } else if (binding.late) {
    carried.kind = Kind::kLate;
    carried.elements = {kind_of(*binding.late)};
  } else if (binding.sequence) {
    carried.kind = Kind::kSequence;
    for (const Binding& element : *binding.sequence) carried.elements.push_back(kind_of_tensor(element));
  } else {
    Binding value = binding;
    value.has_value = nullptr;
    carried.elements = {kind_of_tensor(value)};
  }
  return carried;
}

Carried as_late(NodeImport& n, Carried carried) {
  if (carried.kind != Kind::kSequence) return carried;
  if (carried.elements.empty())
    n.unsupported(UnsupportedKind::kControlFlow,
                  "an empty sequence of which nothing says the rank of its tensors");
  ElementKind all = carried.elements[0];
  for (const ElementKind& one : carried.elements) all = joined(n, all, one);
  carried.kind = Kind::kLate;
  carried.elements = {all};
  return carried;
}

Carried joined(NodeImport& n, const Carried& a, const Carried& b) {
  if (a == b) return a;
  const bool optional = a.optional || b.optional || a.kind == Kind::kAbsent || b.kind == Kind::kAbsent;
  if (a.kind == Kind::kAbsent || b.kind == Kind::kAbsent) {
    Carried value = as_late(n, a.kind == Kind::kAbsent ? b : a);
    value.optional = optional;
    return value;
  }
  if ((a.kind == Kind::kTensor) != (b.kind == Kind::kTensor))
    n.unsupported(UnsupportedKind::kControlFlow, "a tensor and a sequence in one place");
  Carried both = a;
  if (a.kind != Kind::kTensor) {
    // An empty one says nothing of its tensors.
    both.kind = Kind::kSequence;
    both.elements.insert(both.elements.end(), b.elements.begin(), b.elements.end());
    both = as_late(n, std::move(both));
  }
  both.optional = optional;
  return both;
}

std::vector<Value*> carry(NodeImport& n, const Binding& binding, const Carried& as) {
  std::vector<Value*> tensors;
  if (as.optional)
    tensors.push_back(binding.has_value != nullptr ? binding.has_value : bool_value(n, !binding.absent));
  const std::vector<Value*> value = carry_value(n, binding, as);
  tensors.insert(tensors.end(), value.begin(), value.end());
  return tensors;
}

Binding carried_back(const Carried& as, std::span<Value* const> tensors) {
  Binding binding;
  if (as.optional) {
    binding.has_value = tensors[0];
    tensors = tensors.subspan(1);
  }
  if (as.kind == Kind::kTensor) binding.value = tensors[0];
  if (as.kind == Kind::kAbsent) binding.absent = true;
  if (as.kind == Kind::kLate)
    binding.late = std::make_shared<const LateSequence>(
        LateSequence{tensors[0], tensors[1], as.elements[0].ranks_differ});
  if (as.kind == Kind::kSequence) {
    std::vector<Binding> elements(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) elements[i].value = tensors[i];
    binding.sequence = std::make_shared<const std::vector<Binding>>(std::move(elements));
  }
  return binding;
}

std::vector<Binding> carried_back(const std::vector<Carried>& as, std::span<Value* const> tensors) {
  std::vector<Binding> bindings;
  for (const Carried& one : as) {
    bindings.push_back(carried_back(one, tensors.first(one.count())));
    tensors = tensors.subspan(one.count());
  }
  return bindings;
}

}  // namespace gantry
