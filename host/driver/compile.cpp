#include "host/driver/compile.h"

#include <spdlog/spdlog.h>

#include "host/codegen/backends.h"
#include "host/codegen/custom_code.h"
#include "host/driver/custom_builder.h"
#include "host/driver/module_builder.h"
#include "host/driver/program.h"
#include "host/driver/usual_sizes.h"
#include "host/graph/substitute_sizes.h"
#include "host/support/error.h"

namespace gantry {

namespace {

using Sizes = std::map<std::string, int64_t>;

/// A graph for some sizes alone.
struct Specialized {
  Graph graph;
  VariantSizes sizes;
};

/// Those of the options, and beside each, and beside the one for all sizes, that for equal sizes, which comes
/// first.
std::vector<Specialized> specialized_graphs(const Graph& graph, const CompileOptions& options) {
  std::vector<Specialized> all;
  const auto add_usual = [&](const Graph& general, const Sizes& sizes) {
    if (options.optimize == Optimize::kSize) return;  // it is for speed
    if (auto usual = usual_sizes(general))
      all.push_back({std::move(usual->graph), {sizes, std::move(usual->equal)}});
  };
  for (const Sizes& sizes : options.specializations) {
    Graph one = clone_graph(graph);
    try {
      substitute_sizes(one, sizes);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("to specialize for {}: {}", gantry::sizes_text(sizes), error.what()));
    }
    add_usual(one, sizes);
    all.push_back({std::move(one), {sizes, {}}});
  }
  add_usual(graph, {});
  return all;
}

/// " and N=1,mask_length=length"; empty for all sizes.
std::string sizes_text(const VariantSizes& sizes) {
  std::string text = gantry::sizes_text(sizes.values);
  if (!sizes.equal.empty()) text += (text.empty() ? "" : ",") + equal_text(sizes.equal);
  return text.empty() ? "" : " and " + text;
}

LoweredProgram lowered_of(Program program) {
  LoweredProgram lowered{std::move(program.graph), std::move(program.kernels), std::move(program.ops), {}};
  for (KernelCall& call : program.calls)
    lowered.steps.push_back({call.node, call.kernel, call.step, std::move(call.inputs), std::move(call.misfit)});
  return lowered;
}

void add_variant(ModuleBuilder& builder, const Program& program, const Target& target,
                 const CompileOptions& options, const VariantSizes& sizes, CodeImage image,
                 GpuImage gpu = {}) {
  const TimedSpan span(options.observer.spans, "compile", "plan memory and place weights");
  builder.add_variant(program, target, std::move(image), std::move(gpu), sizes);
}

void add_gpu_variant(ModuleBuilder& builder, const Program& program, const Target& target,
                     const CompileOptions& options, const VariantSizes& sizes) {
  std::vector<LoopKernel> on_cpu, on_gpu;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    (program.on_gpu[i] ? on_gpu : on_cpu).push_back(program.kernels[i]);
  }
  SpanRecorder* spans = options.observer.spans;
  CodeImage image = build_image_with_calls(on_cpu, custom_calls(program, target, false), *target.host, options.threads,
                                           options.cache.get(), spans);
  GpuImage gpu =
      build_gpu_image_with_calls(on_gpu, custom_calls(program, target, true), target, options.threads, spans);
  if (!gpu.note.empty() && options.observer.note)
    options.observer.note(fmt::format("{}: {}", target.name, gpu.note));
  for (const GpuEntry& entry : gpu.entries) {
    spdlog::debug("{}: {} registers, {} bytes spilled", entry.symbol, entry.registers, entry.spill_bytes);
  }
  add_variant(builder, program, target, options, sizes, std::move(image), std::move(gpu));
}

/// Compiles the graph for the target into a variant.
Program compile_variant(ModuleBuilder& builder, Graph&& graph, const Target& target,
                        const CompileOptions& options, const VariantSizes& sizes) {
  const std::string what = target.name + sizes_text(sizes);
  const TimedSpan span(options.observer.spans, "compile", "compile for " + what);
  const auto progress = [&](double done) {
    if (options.observer.progress) options.observer.progress("generating code for " + what, done);
  };
  Program program = build_program(std::move(graph), target, options);
  progress(0);
  if (target.device == DeviceKind::kGpu) {
    add_gpu_variant(builder, program, target, options, sizes);
  } else {
    add_variant(
        builder, program, target, options, sizes,
        build_image_with_calls(program.kernels, custom_calls(program, target, false), target, options.threads, options.cache.get(),
                               options.observer.spans));
  }
  progress(1);
  return program;
}

/// Compiles it for all sizes, or for those alone, and tells the observer of it.
void add_program(ModuleBuilder& builder, Graph&& graph, const Target& target, const CompileOptions& options,
                 const VariantSizes& sizes) {
  const CompileObserver& observer = options.observer;
  // Nodes of the program before are gone.
  if (observer.fusion != nullptr) *observer.fusion = {};
  if (observer.layouts != nullptr) *observer.layouts = {};
  Program program = compile_variant(builder, std::move(graph), target, options, sizes);
  if (observer.lowered) observer.lowered(lowered_of(std::move(program)), target);
}

/// The options for the program for all sizes by itself: decisions may be for nodes of another one of the
/// module.
CompileOptions without_others(const Graph& graph, CompileOptions options) {
  if (options.decisions && !specialized_graphs(graph, options).empty())
    options.used_decisions = std::make_shared<UsedDecisions>();
  return options;
}

}  // namespace

std::string_view name_of(Optimize optimize) {
  switch (optimize) {
    case Optimize::kSize:
      return "size";
    case Optimize::kFastMath:
      return "fast-math";
    case Optimize::kSpeed:
      break;
  }
  return "speed";
}

Optimize find_optimize(const std::string& text) {
  for (const Optimize optimize : {Optimize::kSpeed, Optimize::kSize, Optimize::kFastMath}) {
    if (text == name_of(optimize)) return optimize;
  }
  user_error("--optimize {}: is neither speed, size nor fast-math", text);
}

LoweredProgram lower_program(const Graph& graph, const Target& target, const CompileOptions& options) {
  return lowered_of(
      build_program(graph, with_precision(target, options.precision), without_others(graph, options)));
}

PlannedProgram plan_program(const Graph& graph, const Target& named, const CompileOptions& options) {
  expect_code_generation(named);
  const Target target = with_precision(named, options.precision);
  ModuleBuilder builder(graph);
  Program program = build_program(graph, target, without_others(graph, options));
  add_variant(builder, program, target, options, {}, {});
  builder.set_optimize(name_of(options.optimize));
  return {lowered_of(std::move(program)), builder.finish()};
}

ModuleFile compile_graph(const Graph& graph, const CompileOptions& options) {
  return compile_graph(clone_graph(graph), options);
}

ModuleFile compile_graph(Graph&& graph, const CompileOptions& given) {
  CompileOptions options = given;
  if (options.targets.empty()) user_error("no target given: name one with --target (see `gantry targets`)");
  for (const Target& target : options.targets) expect_code_generation(target);
  ModuleBuilder builder(graph);
  const std::vector<Specialized> specialized = specialized_graphs(graph, options);
  for (const Target& named : options.targets) {
    const Target target = with_precision(named, options.precision);
    const bool last = &named == &options.targets.back() && specialized.empty();
    options.used_decisions = specialized.empty() ? nullptr : std::make_shared<UsedDecisions>();
    add_program(builder, last ? std::move(graph) : clone_graph(graph), target, options, {});
    for (const Specialized& one : specialized) {
      options.used_decisions->last = &one == &specialized.back();
      add_program(builder, clone_graph(one.graph), target, options, one.sizes);
    }
  }
  builder.set_optimize(name_of(options.optimize));
  return builder.finish();
}

}  // namespace gantry
