#include "host/cli/execution_inputs.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "device_runtime/src/module_reader.h"
#include "host/cli/made_up_sizes.h"
#include "host/cli/model_tensors.h"
#include "host/cli/sequence_inputs.h"
#include "host/cli/text.h"
#include "host/onnx/import.h"
#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry::cli {
namespace {

/// What is said behind an error of a name that no input has, for names that the model may have an input of.
std::string advice_on_defaults(const ExecutionOptions& options) {
  if (!is_module(options.file, options.contents)) return "";
  return "; an input that has a default in the model is a constant of the module unless that is compiled "
         "with --keep-input NAME";
}

/// How messages call the array for an input.
std::string source_of(const rpc::TensorDescription& input) {
  return fmt::format("inputs['{}']", input.name);
}

/// User errors for arrays that the model has no input for or that do not fit theirs, and for inputs that get
/// no data at all.
void check_tensors(const Execution& execution, const ExecutionOptions& options) {
  std::vector<std::string> names;
  for (const rpc::TensorDescription& input : execution.loaded.inputs) names.push_back(input.name);
  for (const auto& [name, tensor] : options.tensors) {
    if (std::ranges::find(names, name) == names.end()) {
      user_error("{} has no input '{}'; it has {}{}{}", options.file, name, fmt::join(names, ", "),
                 did_you_mean(name, names), advice_on_defaults(options));
    }
  }
  for (const rpc::TensorDescription& input : execution.loaded.inputs) {
    const auto given = options.tensors.find(input.name);
    if (given == options.tensors.end()) continue;
    const HostTensor& array = given->second;
    check_input(input, array_stands_for(array.type, input.type), array.shape, source_of(input));
  }
  if (options.seed || !options.inputs.empty()) return;
  for (const std::string& name : names) {
    if (!options.tensors.contains(name))
      user_error("{}: input '{}' is not given; a seed makes data up", options.file, name);
  }
}

/// The array that check_tensors() has found to fit the input. User error where one of its elements has more
/// bits than the input's.
GivenInput given_array(const HostTensor& array, const rpc::TensorDescription& input) {
  GivenInput given{array, "an array"};
  given.tensor.type = input.type;
  check_elements(given.tensor, source_of(input));
  return given;
}

/// What --shape and --dim say of inputs that are made up.
struct MadeUpSizes {
  std::map<std::string, std::vector<int64_t>> shapes;  ///< by input; kOpenSize: open
  std::map<std::string, int64_t> sizes;                ///< by symbol
};

/// A model was compiled with them, and its module limits its sizes itself: what is left are fixed sizes of
/// inputs. User errors for ranges of what is compiled already.
MadeUpSizes made_up_sizes(const Execution& execution, const ExecutionOptions& options,
                          const GivenSizes& given) {
  const bool compiled = is_module(options.file, options.contents);
  const auto plain = [&](const std::string& name, const GivenSize& size) {
    if (size.open() || size.fixed()) return size.range.low;
    if (compiled)
      user_error("{}={}: {} is compiled already, and a range is for compiling; give one size", name,
                 to_string(size), options.file);
    return kOpenSize;
  };
  const auto is_input = [&](const std::string& name) {
    return std::ranges::any_of(execution.loaded.inputs,
                               [&](const auto& input) { return input.name == name; }) ||
           is_tensor_of_sequence(execution.loaded.inputs, name);
  };
  MadeUpSizes result;
  for (const auto& [name, shape] : given.shapes) {
    if (is_no_value(shape)) {
      if (compiled)
        user_error("--shape {}=none: {} is compiled already; leave --shape out", name, options.file);
      continue;
    }
    if (shape.size() == 1 && !is_input(name)) {  // --shape N=4, of a dimension
      if (compiled) result.sizes[name] = plain(name, shape.front());
      continue;
    }
    for (const GivenSize& size : shape) result.shapes[name].push_back(plain(name, size));
    result.shapes[name];  // of a scalar
  }
  if (!compiled) return result;
  for (const auto& [name, size] : given.sizes) result.sizes[name] = plain(name, size);
  return result;
}

}  // namespace

std::vector<GivenInput> given_inputs(const Execution& execution, const ExecutionOptions& options,
                                     const GivenSizes& sizes) {
  auto contents = runtime::ModuleContents::from_bytes(execution.module.bytes, false);
  if (!contents.ok()) user_error("{}: {}", options.file, contents.status().message());
  const MadeUpSizes asked = made_up_sizes(execution, options, sizes);
  check_size_names(contents->manifest(), asked.sizes);  // also where no input is made up
  InputChoice choice;
  choice.files = options.inputs;
  choice.shapes = asked.shapes;
  choice.seed = options.seed;
  if (!options.tensors.empty()) {
    check_tensors(execution, options);
    for (const auto& [name, tensor] : options.tensors) choice.shapes[name] = tensor.shape;
    choice.seed = options.seed.value_or(0);  // of what is given, too, which is replaced then
  }
  choice.preprocess = options.preprocess;
  choice.advice = advice_on_defaults(options);
  choice.choose = [&](const std::vector<std::vector<int64_t>>& known) {
    return choose_sizes(contents->manifest(), asked.sizes, known);
  };
  std::vector<GivenInput> inputs = gather_inputs(execution.loaded.inputs, choice);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const rpc::TensorDescription& input = execution.loaded.inputs[i];
    const auto given = options.tensors.find(input.name);
    if (given != options.tensors.end()) inputs[i] = given_array(given->second, input);
  }
  return inputs;
}

void check_made_up_inputs(const ExecutionOptions& options, const GivenSizes& sizes,
                          const Execution& execution) {
  bool any_made_up = execution.inputs.empty();
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    const rpc::TensorDescription& input = execution.loaded.inputs[i];
    const bool made_up = execution.inputs[i].source.starts_with("random, ");
    any_made_up = any_made_up || made_up;
    if (!is_module(options.file, options.contents) || !sizes.shapes.contains(input.name)) continue;
    const bool symbolic = std::ranges::any_of(input.shape, [](int64_t dim) { return dim < 0; });
    if (!made_up) {
      user_error("--shape {}=…: {} says what is in this input; leave --shape out", input.name,
                 execution.inputs[i].source);
    }
    if (!symbolic) {
      user_error("--shape {}=…: was {} already when {} was compiled; leave --shape out", input.name,
                 shape_text(input.shape), options.file);
    }
  }
  if (!any_made_up) {
    refuse(options.given, {"--seed", "--random"}, "every input has a file, so that no data are made up");
  }
}

void note_chosen_sizes(const Execution& execution, const Invocation& invocation) {
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    const GivenInput& input = execution.inputs[i];
    if (input.chosen.empty()) continue;
    const rpc::TensorDescription& wanted = execution.loaded.inputs[i];
    const std::string shape = shape_text(input.tensor.shape);
    invocation.note(fmt::format("input '{}' is {}: chosen {}; for others change them in --shape {}={}",
                                wanted.name, shape, chosen_text(input.chosen), wanted.name, shape));
  }
}

}  // namespace gantry::cli
