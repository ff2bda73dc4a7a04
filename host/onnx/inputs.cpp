// Inputs of a model: their types, and the symbols of their dimensions.
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
  if (declared.has_shape()) {
    for (int i = 0; i < declared.shape().dim_size(); ++i)
      type.shape.push_back(input_dim(declared.shape().dim(i), input.name(), i));
    return type;
  }
  const auto given = options_.shapes.find(input.name());
  if (given == options_.shapes.end())
    user_error("{} has no shape in the model: give one with --shape {}=…", what, input.name());
  for (size_t i = 0; i < given->second.size(); ++i)
    type.shape.push_back(Dim::symbol(new_symbol(fmt::format("{}_d{}", input.name(), i))));
  return type;
}

Dim Importer::input_dim(const onnx::TensorShapeProto_Dimension& dim, const std::string& input, int axis) {
  if (const auto size = declared_size(dim)) return *size;
  const std::string name = declared_name(dim);
  return Dim::symbol(name.empty() ? new_symbol(fmt::format("{}_d{}", input, axis)) : symbols_.at(name));
}

void Importer::add_inputs(const onnx::GraphProto& graph) {
  std::vector<OpenInput> inputs;
  std::vector<DType> dtypes;
  GivenSizes given = options_;
  std::map<std::string, int> seen;
  std::string names;
  name_symbols(graph);
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const std::string& name = input.name();
    if (scopes_.back().count(name) != 0 && seen.count(name) == 0) continue;  // has an initialiser
    if (++seen[name] > 1) user_error("the model has two inputs called '{}'", name);
    const auto add = [&] {
      const TensorType type = input_type(input);
      inputs.push_back({name, type.shape});
      dtypes.push_back(type.dtype);
    };
    if (!collect(fmt::format("input '{}'", name), add)) {
      given.shapes.erase(name);
      define_unknown(name, "the model");
    }
    names += (names.empty() ? "" : ", ") + name;
  }
  for (const auto& [name, value] : options_.values) {
    if (seen.count(name) == 0)
      user_error("there is no input '{}' to give a value to; the model's inputs are: {}", name, names);
  }
  given_sizes_ = gantry::given_sizes(given, inputs, symbols_);
  const std::map<std::string, Dim> sizes = size_bindings(given_sizes_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto& [name, shape] = inputs[i];
    for (Dim& dim : shape) dim = dim.substitute(sizes);
    Binding binding;
    auto value = options_.values.find(name);
    if (value != options_.values.end())
      binding.constant = value->second;
    else
      binding.value = graph_.main.add_parameter(name, {dtypes[i], shape});
    define(name, std::move(binding), "the model");
  }
}

}  // namespace gantry
