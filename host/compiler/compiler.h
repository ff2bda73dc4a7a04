// The compiler as a library: graphs, passes, tensor expressions, schedules, lowering and building, in one include.
//
//   Tensor a = placeholder({1024}, DType::kF32, "a");
//   Tensor b = compute({1024}, [&](auto i) { return a(i) * 2; }, "b");
//   Schedule schedule({b});
//   schedule[b].vectorize(schedule[b].split(schedule[b].axes()[0], 8).second);
//   const Target target = find_target("native");
//   ModuleFile module = build({a}, schedule, target, "twice");
//   LoadedProgram program = load(module, target);
//   ConstantPtr result = program.run({data}).at(0);
//
// Errors are gantry::Error: of kind kUser where what was asked for cannot be, of kInternal where a schedule does not
// fit its tensors. Headers of this interface and of the runtime's C++ wrapper (gantry/runtime.hpp) share a namespace:
// a source file includes one of the two.
#pragma once

#include <string>
#include <vector>

#include "host/codegen/codegen.h"
#include "host/codegen/find_target.h"
#include "host/codegen/module_file.h"
#include "host/compiler/loaded_program.h"
#include "host/driver/compile.h"
#include "host/driver/pipeline.h"
#include "host/graph/graph.h"
#include "host/loops/lower.h"
#include "host/machine/target.h"
#include "host/onnx/import.h"
#include "host/ops/builder.h"
#include "host/passes/pass.h"
#include "host/passes/pattern.h"
#include "host/targets/common/schedule_rules.h"
#include "host/tensor/interpret.h"
#include "host/tensor/schedule.h"

namespace gantry {

/// A module of one kernel: from `inputs`, placeholders of constant shapes in the order of the kernel's
/// arguments, to the schedule's outputs. The module's tensors have the names of these tensors; outputs that
/// share one, as those of one loop nest do, are name_0, name_1 and so on. Errors: a user error names an input
/// that is no placeholder, or whose shape is not constant.
ModuleFile build(const std::vector<Tensor>& inputs, const Schedule& schedule, const Target& target,
                 const std::string& name);
/// The same as a graph of one node, for those who compile it with options of their own: `options` is told of the
/// schedule, which must outlive the compilation.
Graph graph_of(const std::vector<Tensor>& inputs, const Schedule& schedule, const std::string& name,
               CompileOptions& options);

/// The module in this process, ready to run. `target`: one that it was built for; it says whether it runs on the CPU, a
/// GPU, or the emulated one.
LoadedProgram load(ModuleFile& module, const Target& target, int threads = 1);

}  // namespace gantry
