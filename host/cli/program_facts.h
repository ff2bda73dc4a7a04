// The plan of a module as a report shows it: values and where they lie, steps and what they read and write.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gantry {
struct KernelRule;  // host/targets/common/kernel_rules.h
}

namespace gantry::cli {

/// A tensor that steps read or write.
struct ProgramValue {
  enum class Kind : uint8_t {
    kInput,      ///< of the model; the caller's memory
    kOutput,     ///< of the model; the caller's memory
    kConstant,   ///< in the module's weights
    kWorkspace,  ///< result or scratch of a step, in the planned memory
    kView,       ///< another value's bytes under another type
  };
  Kind kind = Kind::kWorkspace;
  std::string name;
  std::string type;               ///< "f32[1,3,224,224]"; empty: the module does not say
  std::optional<uint64_t> bytes;  ///< none: depends on dimensions that are not known
  /// Of workspace values.
  std::optional<uint64_t> offset;
  std::optional<uint32_t> first_step, last_step;  ///< it lives from the one to the other, both included
  std::optional<uint32_t> shows;                  ///< of views: the value whose bytes they are
  bool on_gpu = false;                            ///< lies in a GPU's memory, in a workspace of its own
};

/// A step of the plan.
struct ProgramStep {
  // What every module says.
  std::string symbol;         ///< of the kernel; empty: a copy
  std::string name = "copy";  ///< its ops: "nn.conv[winograd4]+nn.relu"
  std::string op;             ///< of them the one that it is for; empty: a copy, or the module does not say
  std::vector<std::string> nodes;        ///< of the model
  std::vector<uint32_t> reads, writes;   ///< indices of values
  std::optional<uint64_t> flops, bytes;  ///< operations and compulsory traffic; none: not known

  // What only the compiler knows (host/cli/compiled_program.h); empty where nothing was compiled.
  std::string decision;                    ///< how it is computed: "winograd4, block 32, …"
  const KernelRule* rule = nullptr;        ///< that scheduled it; null: none of the target's
  std::string graph;                       ///< its lines of graph IR
  std::string loops;                       ///< its loop nest; of steps that call one kernel, at the first
  std::string assembly;                    ///< as `loops`
  std::optional<double> predicted_cycles;  ///< of the analytic model, on one core of a CPU
  std::optional<double> predicted_ms;      ///< of the analytic model, where it or the clock is known
};

/// A planned memory.
struct ProgramMemory {
  std::optional<uint64_t> bytes;  ///< planned; none: depends on dimensions that are not known
  /// The largest sum of what lives at once, each value as large as its place (a multiple of 64 bytes): no
  /// plan of these steps needs less.
  std::optional<uint64_t> bound;
};

struct ProgramFacts {
  std::string target;                    ///< of the variant: "x86-64-v4"
  std::map<std::string, int64_t> sizes;  ///< of the module's symbols that are known
  std::vector<ProgramValue> values;
  std::vector<ProgramStep> steps;
  ProgramMemory workspace;
  std::optional<ProgramMemory> gpu_workspace;  ///< of targets with a GPU's memory
};

/// Fills in times where cycles are predicted: at that clock, shared evenly by so many threads.
void predict_times(ProgramFacts& program, double clock_mhz, int threads);

/// As in docs/bench.schema.json.
nlohmann::ordered_json program_json(const ProgramFacts& program);

}  // namespace gantry::cli
