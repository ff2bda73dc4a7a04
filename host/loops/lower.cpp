#include "host/loops/lower.h"

#include <array>
#include <set>

#include "host/loops/launch.h"
#include "host/loops/nest_builder.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// A step from the schedule to loops.
struct StageStep {
  std::string_view name;
  void (StageProgram::*run)();
  bool for_gpu = false;  ///< and for no CPU
};
constexpr std::array kStageSteps{
    StageStep{"inline_stages", &StageProgram::inline_stages},
    StageStep{"place_arguments", &StageProgram::place_arguments},
    StageStep{"make_loops", &StageProgram::make_loops},
    StageStep{"assign_threads", &StageProgram::assign_threads, true},
    StageStep{"place_buffers", &StageProgram::place_buffers},
};

/// A step from loops to loops.
struct LoopStep {
  std::string_view name;
  Stmt (*run)(const Stmt& body);
  /// Why the step's result would not fit the device; null: it always fits.
  std::optional<ScheduleMisfit> (*misfit)(const Stmt& body) = nullptr;
  /// Null: always.
  bool (*applies)(const Stmt& body) = nullptr;
};

/// With `sizes`, those in the arguments' sizes too: kernels for an emulated GPU check accesses against them.
std::vector<std::string> used_symbols(const LoopKernel& kernel, bool sizes) {
  std::set<std::string> names;
  auto visit = [&](const Expr& e) {
    const auto* var = e.as<VarNode>();
    if (var && var->is_symbol) names.insert(var->name);
  };
  walk(kernel.body, {}, visit);
  for (const Buffer& buffer : kernel.scratch) walk(buffer->element_count, visit);
  for (const Buffer& buffer : kernel.arguments) {
    if (sizes) walk(buffer->element_count, visit);
  }
  return {names.begin(), names.end()};
}

bool has_bound_loops(const Stmt& s) {
  bool found = false;
  walk(s,
       [&](const Stmt& inner) {
         const auto* loop = inner.as<ForNode>();
         found |= loop && (loop->loop == LoopKind::kBlock || loop->loop == LoopKind::kThread);
       },
       {});
  return found;
}

constexpr std::array kLoopSteps{
    LoopStep{"simplify", simplify_loops},
    LoopStep{"bind_launches", bind_launches, misfit_of_launches, has_bound_loops},
    LoopStep{"peel_edges", peel_edges},
    LoopStep{"simplify_peeled", simplify_loops},
    LoopStep{"partition_guards", partition_guards},
    LoopStep{"vectorize", vectorize_loops},
    LoopStep{"transpose_blocks", transpose_blocks},
    LoopStep{"unroll", unroll_loops},
    LoopStep{"narrow_vectors", narrow_vectors},
    LoopStep{"unmask_locals", unmask_locals},
    LoopStep{"unmask_updates", unmask_updates},
    LoopStep{"simplify_unrolled", simplify_loops},
    LoopStep{"hoist_indices", hoist_indices},
};

std::optional<ScheduleMisfit> run_stage_steps(StageProgram& program, const LoopObserver& observe) {
  const auto show = [&](std::string_view step) {
    if (!observe) return;
    LoopKernel kernel = program.kernel;
    kernel.stages = program.text();
    observe(step, kernel);
  };
  show("schedule");
  for (const StageStep& step : kStageSteps) {
    if (step.for_gpu && !program.schedule.for_gpu) continue;
    (program.*step.run)();
    if (program.misfit) return program.misfit;
    show(step.name);
  }
  return std::nullopt;
}

LoopKernel build_nests(StageProgram& program) {
  Stmt body = NestBuilder(program).build();
  LoopKernel kernel = std::move(program.kernel);
  kernel.body = std::move(body);
  kernel.symbols = used_symbols(kernel, program.schedule.for_gpu);
  for (const auto& state : program.states) {
    if (state->sources.empty()) continue;
    if (state->buffer) kernel.sources[state->buffer->name] = state->sources;
    for (const auto& [result, buffer] : program.fixed_buffers) {
      if (result.first == state->stage) kernel.sources[buffer->name] = state->sources;
    }
  }
  return kernel;
}

std::optional<ScheduleMisfit> run_loop_steps(LoopKernel& kernel, const LoopObserver& observe, bool verified) {
  const auto done = [&](std::string_view step) {
    if (verified) verify(kernel, step);
    if (observe) observe(step, kernel);
  };
  done("build_nests");
  for (const LoopStep& step : kLoopSteps) {
    if (step.applies != nullptr && !step.applies(kernel.body)) continue;
    if (step.misfit != nullptr) {
      if (auto misfit = step.misfit(kernel.body)) return misfit;
    }
    kernel.body = step.run(kernel.body);
    done(step.name);
  }
  return misfit_of_locals(kernel.body);
}

void expect_fit(const std::optional<ScheduleMisfit>& misfit, const std::string& kernel) {
  if (misfit) internal_error("kernel {}: the schedule asks for more than there is: {}", kernel, misfit->reason);
}

}  // namespace

StageProgram::StageProgram(const Schedule& of, const std::vector<Tensor>& tensors, std::string name)
    : schedule(of), inputs(tensors) {
  kernel.name = std::move(name);
  kernel.rule = of.rule;
}

std::variant<LoopKernel, ScheduleMisfit> lower_kernel(const Schedule& schedule, const std::vector<Tensor>& inputs,
                                              const std::string& name, const LoopObserver& observe, bool verified) {
  StageProgram program(schedule, inputs, name);
  if (auto misfit = run_stage_steps(program, observe)) return std::move(*misfit);
  LoopKernel kernel = build_nests(program);
  if (auto misfit = run_loop_steps(kernel, observe, verified)) return std::move(*misfit);
  return kernel;
}

LoopKernel lower_schedule(const Schedule& schedule, const std::vector<Tensor>& inputs, const std::string& name,
                          const LoopObserver& observe) {
  StageProgram program(schedule, inputs, name);
  expect_fit(run_stage_steps(program, observe), name);
  return build_nests(program);
}

LoopKernel run_loop_passes(LoopKernel kernel, const LoopObserver& observe, bool verified) {
  expect_fit(run_loop_steps(kernel, observe, verified), kernel.name);
  return kernel;
}

}  // namespace gantry
