#include "host/tune/model_build.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <type_traits>

#include "host/codegen/find_target.h"
#include "host/driver/decision_file.h"
#include "host/gir/gir_file.h"
#include "host/gir/safetensors.h"
#include "host/graph/text.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/passes/pass.h"
#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::tune {
namespace {

using Json = nlohmann::json;

/// A member of the options, which come from outside.
template <typename T>
T member(const Json& json, const char* name) {
  const auto found = json.find(name);
  const bool fits = found != json.end() && (std::is_same_v<T, std::string> ? found->is_string()
                                            : std::is_same_v<T, bool>      ? found->is_boolean()
                                                                           : found->is_number_integer());
  if (!fits) user_error("the options of a model that was sent say nothing of '{}'", name);
  return found->get<T>();
}

/// work_name() of the nodes for which a form was chosen, those of a group among them.
void add_decided(const Node& node, std::vector<std::string>& names) {
  if (node.decision) {
    for (const std::string& origin : node.origin) names.push_back(work_name(node.op->name, origin));
  }
  for (const auto& body : node.bodies) {
    for (const Node* inner : body->nodes()) add_decided(*inner, names);
  }
}

}  // namespace

ModelBuild build_model(const Graph& graph, CompileOptions options, std::string_view decisions,
                       size_t program) {
  ModelBuild build;
  size_t programs = 0;
  options.decisions = std::make_shared<const DecisionFile>(DecisionFile::parse(decisions, "the tuner"));
  options.observer.lowered = [&](const LoweredProgram& lowered, const Target&) {
    if (programs++ == program) build.step_origins = step_origins_of(lowered);
  };
  build.module = compile_graph(clone_graph(graph), options);
  if (program >= programs) user_error("there is no program {} of the model, but {}", program, programs);
  return build;
}

std::vector<std::vector<std::string>> step_origins_of(const LoweredProgram& program) {
  std::vector<std::vector<std::string>> origins;
  for (const KernelStep& step : program.steps) {
    if (origins.size() <= step.step) origins.resize(step.step + 1);
    origins[step.step] = step.node->origin;
    add_decided(*step.node, origins[step.step]);
  }
  return origins;
}

std::string work_name(std::string_view op, std::string_view origin) {
  return fmt::format("{} of {}", op, origin);
}

std::string step_text(const std::vector<std::vector<std::string>>& step_origins) {
  std::string text;
  for (const std::vector<std::string>& names : step_origins) text += origin_text(names) + "\n";
  return text;
}

std::vector<std::vector<std::string>> parse_step_text(std::string_view text, size_t most_steps) {
  if (!text.empty() && !text.ends_with('\n')) user_error("what a program's steps compute is cut off");
  const auto lines = static_cast<size_t>(std::ranges::count(text, '\n'));
  if (lines > most_steps)
    user_error("what {} steps compute is said of a program that has {}", lines, most_steps);
  std::vector<std::vector<std::string>> steps;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    steps.push_back(parse_origin(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
  return steps;
}

PackedModel pack_model(const Graph& graph, const CompileOptions& options, size_t program,
                       const std::filesystem::path& path) {
  internal_check(options.targets.size() == 1 && options.specializations.empty() && !options.own_kernel,
                 "a model is packed for one target, and is built by its rules");
  const GirFiles files = gir_files(graph, FusedOpTable(op_set()), kPackedText);
  OutputFile file(path, OutputFile::Privacy::kPrivate);
  file.write(files.text);
  if (!files.weights.empty()) {
    const SafetensorsLayout layout = safetensors_layout(files.weights);
    file.write(layout.head);
    for (const ConstantPtr& tensor : layout.tensors) file.write(tensor->bytes, tensor->size);
  }
  file.commit(/*durable=*/false);
  PackedModel packed;
  packed.text_size = files.text.size();
  packed.options = Json{{"name", graph.model_name},
                        {"target", options.targets.front().name},
                        {"precision", std::string(name_of(options.precision))},
                        {"optimize", std::string(name_of(options.optimize))},
                        {"opt_level", options.opt_level},
                        {"program", program},
                        {"cache", options.cache != nullptr}}
                       .dump(-1, ' ', false, Json::error_handler_t::replace);
  return packed;
}

UnpackedModel unpack_model(const std::string& options, const std::filesystem::path& folder) {
  const Json json = Json::parse(options, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) user_error("the options of a model that was sent are no JSON object");
  UnpackedModel model;
  model.use_cache = member<bool>(json, "cache");
  model.options.targets = {find_target(member<std::string>(json, "target"))};
  model.options.precision = find_precision(member<std::string>(json, "precision"));
  model.options.optimize = find_optimize(member<std::string>(json, "optimize"));
  const auto level = member<int64_t>(json, "opt_level"), program = member<int64_t>(json, "program");
  if (level < 0 || level > kMostOptLevel) user_error("a model that was sent has no level of optimisation");
  model.options.opt_level = static_cast<int>(level);
  if (program < 0) user_error("a model that was sent has no program {}", program);
  model.program = static_cast<size_t>(program);
  model.options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  model.graph = read_gir(folder / kPackedText, FusedOpTable(op_set()), graph_pass_names());
  model.graph.model_name = member<std::string>(json, "name");  // where it has none, the file's is taken
  return model;
}

}  // namespace gantry::tune
