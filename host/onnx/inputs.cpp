// Inputs of a model: their types, and the symbols of their dimensions.
#include <onnx/onnx_pb.h>

#include "host/graph/late_values.h"
#include "host/onnx/declared_dim.h"
#include "host/onnx/importer.h"
#include "host/onnx/late_sequence.h"
#include "host/onnx/malformed.h"
#include "host/onnx/node_import.h"
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

void expect_rank(const onnx::TypeProto& tensor, const std::string& what) {
  const auto rank = static_cast<size_t>(tensor.tensor_type().shape().dim_size());
  if (rank > kMaxRank) user_error("{} has {} dimensions, and tensors have at most {}", what, rank, kMaxRank);
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
  expect_rank(type, what);
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

std::optional<size_t> Importer::input_length(const std::string& name) const {
  const auto whole = options_.shapes.find(name);
  if (whole != options_.shapes.end() && !(whole->second.size() == 1 && whole->second[0].open())) {
    if (whole->second.size() == 1 && whole->second[0].fixed())
      return static_cast<size_t>(whole->second[0].range.low);
    user_error("input '{}' is a sequence: its shape is the number of its elements", name);
  }
  size_t length = 0;
  while (options_.shapes.count(element_name(name, length)) != 0) ++length;
  return length > 0 ? std::optional(length) : std::nullopt;
}

/// An input of the model, and those that the module has for it.
struct Importer::ModelInput {
  const onnx::ValueInfoProto* input = nullptr;
  std::vector<std::pair<std::string, TensorType>> tensors;
  bool late =
      false;  ///< a sequence whose tensors only the running model knows: they are elements and dimensions
  std::vector<std::optional<Dim>> declared;  ///< of its tensors' dimensions: those that the model says
};

Importer::ModelInput Importer::late_input(const onnx::ValueInfoProto& input) {
  const std::string &name = input.name(), what = fmt::format("input '{}'", name);
  const onnx::TypeProto& type = tensor_in(input.type());
  if (!type.has_tensor_type()) not_a_tensor(type, what);
  expect_rank(type, what);
  if (!type.tensor_type().has_shape()) {
    throw Unsupported(
        UnsupportedKind::kValueKind, "sequence of tensors of unknown rank",
        fmt::format("{0} is a sequence of tensors of which the model does not say how many dimensions they "
                    "have, which gantry does not support: say which tensors there are, with "
                    "--shape {1}[0]=… for the first and so on",
                    what, name));
  }
  ModelInput late{&input, {}, true, {}};
  for (const onnx::TensorShapeProto_Dimension& dim : type.tensor_type().shape().dim()) {
    const auto size = declared_size(dim);
    const auto named = symbols_.find(declared_name(dim));
    late.declared.push_back(size                      ? std::optional<Dim>(*size)
                            : named != symbols_.end() ? std::optional(Dim::symbol(named->second))
                                                      : std::nullopt);
  }
  const DType dtype = dtype_of(type.tensor_type().elem_type(), what);
  const Dim total = Dim::symbol(new_symbol(name + ".elements"));
  const Dim count = Dim::symbol(new_symbol(name + ".tensors"));
  late.tensors = {{late_elements_name(name), {dtype, {total}}},
                  {late_dims_name(name), {DType::kI64, {count, type.tensor_type().shape().dim_size() + 1}}}};
  return late;
}

Importer::ModelInput Importer::model_input(const onnx::ValueInfoProto& input) {
  ModelInput result{&input, {}, false, {}};
  const auto add = [&](const std::string& name) {
    result.tensors.emplace_back(name, input_type(name, tensor_in(input.type())));
  };
  if (lacks_value(options_, input)) return result;
  if (!sequence_in(input.type())) {
    add(input.name());
    return result;
  }
  const std::optional<size_t> length = input_length(input.name());
  if (!length) return late_input(input);
  for (size_t i = 0; i < *length; ++i) add(element_name(input.name(), i));
  return result;
}

void Importer::define_input(const ModelInput& input) {
  const std::string& name = input.input->name();
  std::vector<Binding> tensors;
  for (const auto& [tensor, type] : input.tensors) {
    Binding& binding = tensors.emplace_back();
    const auto value = options_.values.find(tensor);
    if (value != options_.values.end())
      binding.constant = value->second;
    else
      binding.value = graph_.main.add_parameter(tensor, type);
  }
  Binding binding;
  if (lacks_value(options_, *input.input)) {
    binding.absent = true;
  } else if (input.late) {
    onnx::NodeProto reader;  // what the sequence is read by, for errors
    NodeImport n(*this, reader, name);
    binding.late = std::make_shared<const LateSequence>(
        given_sequence(n, materialise(tensors[0], name), materialise(tensors[1], name), input.declared));
  } else if (sequence_in(input.input->type())) {
    binding.sequence = std::make_shared<const std::vector<Binding>>(std::move(tensors));
  } else {
    binding = std::move(tensors[0]);
  }
  define(name, std::move(binding), "the model");
}

void Importer::add_inputs(const onnx::GraphProto& graph) {
  std::vector<OpenInput> inputs;
  std::vector<ModelInput> supported;
  GivenSizes given = options_;
  Malformed malformed;
  std::map<std::string, int> seen;
  std::string names;
  name_symbols(graph);
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const std::string& name = input.name();
    if (scopes_.back().count(name) != 0 && seen.count(name) == 0) continue;  // has an initialiser
    if (++seen[name] > 1) {
      malformed.add(BrokenModel(fmt::format("the model has two inputs called '{}'", name)));
      continue;
    }
    if (sequence_in(input.type()) || lacks_value(options_, input)) given.shapes.erase(name);
    const auto add = [&] {
      supported.push_back(model_input(input));
      for (const auto& [tensor, type] : supported.back().tensors) inputs.push_back({tensor, type.shape});
    };
    bool is_known = false;
    try {
      is_known = collect(fmt::format("input '{}'", name), add);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUser) throw;
      malformed.add(error);
    }
    if (!is_known) {
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
  for (ModelInput& input : supported) {
    for (auto& [name, type] : input.tensors) {
      for (Dim& dim : type.shape) dim = dim.substitute(sizes);
    }
    for (std::optional<Dim>& dim : input.declared) {
      if (dim) dim = dim->substitute(sizes);
    }
    define_input(input);
  }
  malformed.throw_any("inputs");
}

}  // namespace gantry
