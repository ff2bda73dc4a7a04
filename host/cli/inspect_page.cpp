#include "host/cli/inspect_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "device_runtime/src/module_reader.h"
#include "host/cli/compiled_program.h"
#include "host/cli/model_source.h"
#include "host/cli/program_of_module.h"
#include "host/cli/report/page.h"
#include "host/cli/report/report_data.h"
#include "host/codegen/find_target.h"
#include "host/codegen/module_file.h"
#include "host/machine/target.h"
#include "host/support/error.h"
#include "module_generated.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The variant that --target names; without it the first.
const module_format::Variant& chosen_variant(const module_format::Manifest& manifest,
                                             const std::filesystem::path& path, const std::string& target) {
  std::vector<std::string> names;
  for (const module_format::Variant* variant : *manifest.variants()) {
    names.push_back(variant->target()->str());
    if (target.empty() || names.back() == target) return *variant;
  }
  user_error("{}: has no code for --target {}; it has it for {}", path.string(), target,
             fmt::join(names, ", "));
}

/// Sizes that depend on open dimensions are not known: nothing has run.
Json plan_of_module(const std::filesystem::path& path, const std::string& target) {
  auto contents = runtime::ModuleContents::open(path.string());
  if (!contents.ok()) user_error("{}", contents.status().message());
  const module_format::Manifest& manifest = contents->manifest();
  return program_json(program_of_module(manifest, chosen_variant(manifest, path, target), {}));
}

Json plan_of_model(const std::filesystem::path& path, const InspectOptions& inspect,
                   const std::string& target, const Invocation& invocation) {
  Progress progress(invocation.verbosity());
  progress.update("reading " + path.string(), -1);
  const Graph graph = import_model(path,
                                   {.sizes = inspect.sizes,
                                    .custom_ops = inspect.custom_ops,
                                    .kept_inputs = {inspect.kept_inputs.begin(), inspect.kept_inputs.end()}},
                                   invocation);
  CompileOptions options = compile_options({find_target(target.empty() ? "native" : target)}, /*opt_level=*/3,
                                           progress, &invocation);
  options.cache = open_cache(true);
  std::optional<CompiledProgram> compiled;
  options.observer.lowered = [&](LoweredProgram lowered, const Target& lowered_for) {
    if (!compiled) compiled = without_weights(std::move(lowered), lowered_for);
  };
  ModuleFile module = compile_graph(graph, options);
  const auto bytes = std::make_shared<const std::vector<std::byte>>(serialize_module(module));
  auto contents = runtime::ModuleContents::from_bytes({*bytes, bytes}, /*check_digests=*/false);
  if (!contents.ok()) internal_error("{}: {}", path.string(), contents.status().message());
  const module_format::Manifest& manifest = contents->manifest();
  const module_format::Variant& variant = chosen_variant(manifest, path, "");
  ProgramFacts facts = program_of_module(manifest, variant, {});
  if (compiled) add_compiled(facts, variant, *compiled);
  return program_json(facts);
}

/// Lists that the plan has with more in them.
void drop_plans(Json& inspection) {
  inspection.erase("segments");
  if (!inspection.contains("variants")) return;
  for (Json& variant : inspection["variants"]) {
    for (const char* list : {"kernels", "steps", "buffers", "features"}) variant.erase(list);
  }
}

}  // namespace

Inspection inspect_page(const std::filesystem::path& path, const InspectOptions& options,
                        const std::string& target, const Invocation& invocation) {
  InspectOptions as_json = options;
  as_json.json = true;
  const bool is_module = is_module_file(path);
  const Inspection found = is_module                  ? inspect_module(path, as_json)
                           : is_graph_text_file(path) ? inspect_graph_text(path, as_json)
                                                      : inspect_model(path, as_json);
  Json data = page_basics(GANTRY_VERSION);
  data["inspection"] = Json::parse(found.report);
  drop_plans(data["inspection"]);
  if (found.problem.empty()) {
    data["inspection"]["program"] =
        is_module ? plan_of_module(path, target) : plan_of_model(path, options, target, invocation);
  }
  return {report_page(data), found.problem};
}

}  // namespace gantry::cli
