// Inputs of a model: their types, and the symbols of their dimensions.
#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include "host/onnx/declared_dim.h"
#include "host/onnx/importer.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// Letters, digits, '_' and '.', no digit first, no word of dimension expressions.
std::string as_symbol(std::string_view text) {
  std::string name;
  for (char c : text) {
    bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    name += plain ? c : '_';
  }
  bool starts_well = !name.empty() && ((name[0] >= 'a' && name[0] <= 'z') ||
                                       (name[0] >= 'A' && name[0] <= 'Z') || name[0] == '_');
  if (!starts_well) name = "d" + name;
  for (const char* reserved : {"floordiv", "mod", "max", "min"}) {
    if (name == reserved) name += "_";
  }
  return name;
}

[[noreturn]] void not_a_tensor(const onnx::TypeProto& type, const std::string& what) {
  const char* kind = type.has_sequence_type()        ? "sequence"
                     : type.has_optional_type()      ? "optional"
                     : type.has_map_type()           ? "map"
                     : type.has_sparse_tensor_type() ? "sparse tensor"
                                                     : nullptr;
  if (kind == nullptr) user_error("{} has no type in the model: export it again", what);
  throw Unsupported(UnsupportedKind::kValueKind, kind,
                    fmt::format("{} is of the kind {}, which gantry does not support", what, kind));
}

}  // namespace

std::string Importer::new_symbol(const std::string& wanted) {
  std::string name = as_symbol(wanted);
  while (!taken_symbols_.insert(name).second) name += "_";
  return name;
}

void Importer::name_symbols(const onnx::GraphProto& graph) {
  for (const onnx::ValueInfoProto& input : graph.input()) {
    for (const onnx::TensorShapeProto_Dimension& dim : input.type().tensor_type().shape().dim()) {
      const std::string name = declared_size(dim) ? "" : declared_name(dim);
      if (!name.empty() && symbols_.count(name) == 0) symbols_[name] = new_symbol(name);
    }
  }
}

TensorType Importer::input_type(const onnx::ValueInfoProto& input) {
  std::string what = fmt::format("input '{}'", input.name());
  if (!input.type().has_tensor_type()) not_a_tensor(input.type(), what);
  const auto& declared = input.type().tensor_type();
  TensorType type{dtype_of(declared.elem_type(), what), {}};
  auto found = options_.shapes.find(input.name());
  const std::vector<int64_t>* given = found == options_.shapes.end() ? nullptr : &found->second;
  if (!declared.has_shape()) {
    if (given == nullptr)
      user_error("{} has no shape in the model: give one with --shape {}=…", what, input.name());
    for (size_t i = 0; i < given->size(); ++i) {
      const int64_t size = (*given)[i];
      type.shape.push_back(size == kOpenSize ? Dim::symbol(new_symbol(fmt::format("{}_d{}", input.name(), i)))
                                             : Dim(size));
    }
    return type;
  }
  const int rank = declared.shape().dim_size();
  if (given != nullptr && static_cast<int>(given->size()) != rank) {
    user_error("the shape given for {} has {} dimensions, but the model's has {}", what, given->size(), rank);
  }
  for (int i = 0; i < rank; ++i) {
    const onnx::TensorShapeProto_Dimension& dim = declared.shape().dim(i);
    const int64_t size = given != nullptr ? (*given)[static_cast<size_t>(i)] : kOpenSize;
    if (size < kOpenSize) user_error("the shape given for {} has a negative dimension ({})", what, size);
    type.shape.push_back(input_dim(dim, size, input.name(), i));
  }
  return type;
}

Dim Importer::input_dim(const onnx::TensorShapeProto_Dimension& dim, int64_t given, const std::string& input,
                        int axis) {
  if (const auto size = declared_size(dim)) {
    if (given != kOpenSize && given != *size) {
      user_error("the shape given for input '{}' has {} at axis {}, but the model fixes it to {}", input,
                 given, axis, *size);
    }
    return *size;
  }
  const std::string name = declared_name(dim);
  const std::string symbol =
      name.empty() ? new_symbol(fmt::format("{}_d{}", input, axis)) : symbols_.at(name);
  if (given != kOpenSize && fixed_symbols_.emplace(symbol, given).first->second != given) {
    user_error("the shapes given make '{}' both {} and {}", symbol, fixed_symbols_[symbol], given);
  }
  return Dim::symbol(symbol);
}

void Importer::add_inputs(const onnx::GraphProto& graph) {
  std::vector<std::pair<std::string, TensorType>> inputs;
  std::map<std::string, int> seen;
  std::string names;
  name_symbols(graph);
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (scopes_.back().count(input.name()) != 0 && seen.count(input.name()) == 0)
      continue;  // has an initialiser
    if (++seen[input.name()] > 1) user_error("the model has two inputs called '{}'", input.name());
    const std::string what = fmt::format("input '{}'", input.name());
    if (!collect(what, [&] { inputs.emplace_back(input.name(), input_type(input)); }))
      define_unknown(input.name(), "the model");
    names += (names.empty() ? "" : ", ") + input.name();
  }
  for (const auto& [name, shape] : options_.shapes) {
    if (seen.count(name) == 0)
      user_error("there is no input '{}' to give a shape to; the model's inputs are: {}", name, names);
  }
  for (const auto& [name, value] : options_.values) {
    if (seen.count(name) == 0)
      user_error("there is no input '{}' to give a value to; the model's inputs are: {}", name, names);
  }
  fix_named_sizes();
  std::map<std::string, Dim> bindings;
  for (const auto& [symbol, value] : fixed_symbols_) bindings.emplace(symbol, Dim(value));
  for (auto& [name, type] : inputs) {
    for (Dim& dim : type.shape) dim = dim.substitute(bindings);
    Binding binding;
    auto value = options_.values.find(name);
    if (value != options_.values.end())
      binding.constant = value->second;
    else
      binding.value = graph_.main.add_parameter(name, type);
    define(name, std::move(binding), "the model");
  }
}

void Importer::fix_named_sizes() {
  for (const auto& [name, size] : options_.sizes) {
    const auto declared = symbols_.find(name);
    const std::string& symbol = declared == symbols_.end() ? name : declared->second;
    if (taken_symbols_.count(symbol) == 0) {
      const std::vector<std::string> names(taken_symbols_.begin(), taken_symbols_.end());
      user_error("--dim {}={}: the model's inputs have no dimension '{}'; {}", name, size, name,
                 names.empty() ? "all are fixed"
                               : fmt::format("those without a fixed size are: {}", fmt::join(names, ", ")));
    }
    if (fixed_symbols_.emplace(symbol, size).first->second != size)
      user_error("the shapes given make '{}' both {} and {}", symbol, fixed_symbols_[symbol], size);
  }
}

}  // namespace gantry
