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
  for (const char* reserved : {"floordiv", "mod", "max", "min", "broadcast"}) {
    if (name == reserved) name += "_";
  }
  return name;
}

/// The type of an optional's value; other types are themselves.
const onnx::TypeProto& present(const onnx::TypeProto& type) {
  return type.has_optional_type() ? type.optional_type().elem_type() : type;
}
bool sequence_in(const onnx::TypeProto& type) {
  return present(type).has_sequence_type();
}
/// The type of the tensors that a value is made of.
const onnx::TypeProto& tensor_in(const onnx::TypeProto& type) {
  return sequence_in(type) ? present(type).sequence_type().elem_type() : present(type);
}

/// Whether an optional is known to have no value.
bool lacks_value(const ImportOptions& options, const onnx::ValueInfoProto& input) {
  const auto value = options.values.find(input.name());
  const auto shape = options.shapes.find(input.name());
  const bool lacks = (value != options.values.end() && value->second == nullptr) ||
                     (shape != options.shapes.end() && is_no_value(shape->second));
  if (lacks && !input.type().has_optional_type())
    user_error("input '{}' is no optional, so it needs a value in every run", input.name());
  return lacks;
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

std::string element_name(const std::string& sequence, size_t element) {
  return fmt::format("{}[{}]", sequence, element);
}

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

TensorType Importer::input_type(const std::string& name, const onnx::TypeProto& type) {
  const std::string what = fmt::format("input '{}'", name);
  if (!type.has_tensor_type()) not_a_tensor(type, what);
  const auto& declared = type.tensor_type();
  TensorType found{dtype_of(declared.elem_type(), what), {}};
  if (declared.has_shape()) {
    for (int i = 0; i < declared.shape().dim_size(); ++i)
      found.shape.push_back(input_dim(declared.shape().dim(i), name, i));
    return found;
  }
  const auto given = options_.shapes.find(name);
  if (given == options_.shapes.end())
    user_error("{} has no shape in the model: give one with --shape {}=…", what, name);
  for (size_t i = 0; i < given->second.size(); ++i)
    found.shape.push_back(Dim::symbol(new_symbol(fmt::format("{}_d{}", name, i))));
  return found;
}

Dim Importer::input_dim(const onnx::TensorShapeProto_Dimension& dim, const std::string& input, int axis) {
  if (const auto size = declared_size(dim)) return *size;
  const auto named = symbols_.find(declared_name(dim));
  // Elements of a sequence may differ where they have a name for a size in common.
  if (named == symbols_.end()) return Dim::symbol(new_symbol(fmt::format("{}_d{}", input, axis)));
  return Dim::symbol(named->second);
}

size_t Importer::input_length(const std::string& name) const {
  const auto whole = options_.shapes.find(name);
  if (whole != options_.shapes.end()) {
    if (whole->second.size() == 1 && whole->second[0].fixed() && !whole->second[0].open())
      return static_cast<size_t>(whole->second[0].range.low);
    user_error("input '{}' is a sequence: its shape is the number of its elements", name);
  }
  size_t length = 0;
  while (options_.shapes.count(element_name(name, length)) != 0) ++length;
  if (length > 0) return length;
  throw Unsupported(
      UnsupportedKind::kValueKind, "sequence of unknown length",
      fmt::format("input '{0}' is a sequence of an unknown number of elements, which gantry does not "
                  "support: give their number with --shape {0}=N",
                  name));
}

std::vector<std::string> Importer::tensors_of(const onnx::ValueInfoProto& input) const {
  if (lacks_value(options_, input)) return {};
  if (!sequence_in(input.type())) return {input.name()};
  std::vector<std::string> names;
  for (size_t i = 0; i < input_length(input.name()); ++i) names.push_back(element_name(input.name(), i));
  return names;
}

void Importer::define_input(const onnx::ValueInfoProto& input,
                            const std::map<std::string, TensorType>& types) {
  const auto bound = [&](const std::string& name) {
    Binding binding;
    const auto value = options_.values.find(name);
    if (value != options_.values.end())
      binding.constant = value->second;
    else
      binding.value = graph_.main.add_parameter(name, types.at(name));
    return binding;
  };
  Binding binding;
  if (lacks_value(options_, input)) {
    binding.absent = true;
  } else if (sequence_in(input.type()) && options_.values.count(input.name()) == 0) {
    std::vector<Binding> elements;
    for (const std::string& name : tensors_of(input)) elements.push_back(bound(name));
    binding.sequence = std::make_shared<const std::vector<Binding>>(std::move(elements));
  } else {
    binding = bound(input.name());
  }
  define(input.name(), std::move(binding), "the model");
}

void Importer::add_inputs(const onnx::GraphProto& graph) {
  std::vector<OpenInput> inputs;
  std::map<std::string, TensorType> types;
  std::vector<const onnx::ValueInfoProto*> supported;
  GivenSizes given = options_;
  std::map<std::string, int> seen;
  std::string names;
  name_symbols(graph);
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const std::string& name = input.name();
    if (scopes_.back().count(name) != 0 && seen.count(name) == 0) continue;  // has an initialiser
    if (++seen[name] > 1) user_error("the model has two inputs called '{}'", name);
    if (sequence_in(input.type()) || lacks_value(options_, input)) given.shapes.erase(name);
    const auto add = [&] {
      for (const std::string& tensor : tensors_of(input)) {
        const TensorType type = input_type(tensor, tensor_in(input.type()));
        inputs.push_back({tensor, type.shape});
        types[tensor] = type;
      }
      supported.push_back(&input);
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
  for (auto& [name, type] : types) {
    for (Dim& dim : type.shape) dim = dim.substitute(sizes);
  }
  for (const onnx::ValueInfoProto* input : supported) define_input(*input, types);
}

}  // namespace gantry
