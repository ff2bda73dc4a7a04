// What the compiler knows of a plan beyond what it writes into the module: for reports of what was compiled
// just now.
#pragma once

#include "host/cli/program_facts.h"
#include "host/driver/compile.h"
#include "host/machine/target.h"
#include "module_generated.h"

namespace gantry::cli {

struct CompiledProgram {
  LoweredProgram lowered;
  Target target;
};

/// Without the bytes of its weights, which no report shows.
CompiledProgram without_weights(LoweredProgram lowered, const Target& target);

/// Adds to the facts of `variant`, which was made of this program: names and types of values, views, and of
/// every step its lines of graph IR, loop nest, decision and what the analytic model predicts; code only
/// where asked for. Equal kernels have their loop nest and code once, at the first step. An internal error
/// where the variant's plan does not call the program's kernels.
void add_compiled(ProgramFacts& facts, const module_format::Variant& variant, const CompiledProgram& program,
                  bool assembly = false);

}  // namespace gantry::cli
