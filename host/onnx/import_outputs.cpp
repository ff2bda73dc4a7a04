// The model's outputs.
#include <onnx/onnx_pb.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "host/graph/late_values.h"
#include "host/onnx/declared_dim.h"
#include "host/onnx/importer.h"
#include "host/onnx/malformed.h"
#include "host/ops/builder.h"
#include "host/ops/elementwise.h"
#include "host/support/error.h"

namespace gantry {

void Importer::check_declared(const onnx::ValueInfoProto& output, const Value& value) {
  if (!output.type().has_tensor_type()) return;
  const TensorType& type = value.type;
  const auto& declared = output.type().tensor_type();
  if (declared.elem_type() != 0 && dtype_of(declared.elem_type(), "output") != type.dtype) {
    user_error("output '{}' is declared with another dtype than the {} that the model computes",
               output.name(), name_of(type.dtype));
  }
  if (declared.has_shape() && declared.shape().dim_size() != type.rank()) ++contradicted_outputs_;
  // What the user fixed, the model could not know.
  const bool fixed = !given_sizes_.empty() || !options_.shapes.empty();
  if (!options_.warn || !declared.has_shape() || fixed || may_be(declared.shape(), type.shape)) return;
  // Not an error: exporters write what onnx's shape inference said, which counts a window too many for
  // pooling with ceil_mode where the last one would lie in the padding.
  const bool computed = value.producer != nullptr && !value.producer->origin.empty();
  options_.warn(fmt::format(
      "output '{}' is declared with the shape {}, but {} computes {}: that is what it has", output.name(),
      shape_text(declared.shape()),
      computed ? fmt::format("node {}", value.producer->origin.back()) : "the model", type.str()));
}

void Importer::add_outputs(const onnx::GraphProto& graph) {
  if (graph.output_size() == 0) user_error("the model has no outputs");
  std::set<std::string> met, taken;
  Malformed malformed;
  for (const onnx::ValueInfoProto& output : graph.output()) taken.insert(output.name());
  for (const onnx::ValueInfoProto& output : graph.output()) {
    onnx::ValueInfoProto named = output;
    // A model may list one tensor several times; those of a module are told apart by their names.
    if (!met.insert(output.name()).second) {
      for (int i = 2; !taken.insert(named.name()).second; ++i)
        named.set_name(fmt::format("{}#{}", output.name(), i));
      warn(fmt::format("the model lists the output '{}' again: here that is called '{}'", output.name(),
                       named.name()));
    }
    try {
      add_output_of(lookup(output.name(), "the model's output"), named);
    } catch (const ReadsUnknown&) {
      continue;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUser) throw;
      malformed.add(error);
    }
  }
  malformed.throw_any("outputs");
}

void Importer::add_output_of(Binding& binding, const onnx::ValueInfoProto& output) {
  if (binding.absent) return;
  if (binding.has_value != nullptr) add_output(binding.has_value, late_presence_name(output.name()));
  if (binding.late) {
    add_output(binding.late->elements, late_elements_name(output.name()));
    add_output(binding.late->dims, late_dims_name(output.name()));
  } else if (binding.sequence) {
    for (size_t i = 0; i < binding.sequence->size(); ++i) {
      Binding element = (*binding.sequence)[i];
      add_output(element, element_name(output.name(), i), nullptr);
    }
  } else {
    add_output(binding, output.name(), binding.has_value == nullptr ? &output : nullptr);
  }
}

void Importer::add_output(Binding& binding, const std::string& name, const onnx::ValueInfoProto* declared) {
  Value* value = materialise(binding, name);
  const auto check = [&] { check_declared(*declared, *value); };
  if (declared != nullptr && !collect(fmt::format("output '{}'", name), check)) return;
  add_output(value, name);
}

void Importer::add_output(Value* value, const std::string& name) {
  Function& f = graph_.main;
  if (std::ranges::find(f.output_names, name) != f.output_names.end())
    user_error(
        "two of the module's outputs would be called '{}': one is a sequence or an optional of the model's, "
        "which is "
        "several of them; give the other one another name",
        name);
  // Every output is a buffer of its own, filled by a node.
  bool shared = std::count(f.outputs.begin(), f.outputs.end(), value) != 0;
  if (value->kind != Value::Kind::kResult || shared) value = Builder(f, {name})(op::copy, {value});
  f.outputs.push_back(value);
  f.output_names.push_back(name);
}

}  // namespace gantry
