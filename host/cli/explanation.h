// Why the compiler made of a model what it made: `gantry ir --explain`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/memory_map.h"
#include "host/driver/compile.h"
#include "host/targets/common/kernel_rules.h"

namespace gantry::cli {

/// Why something was decided: the rule's name, for machines, and for people.
struct Why {
  std::string rule, text;
};

/// What the analytic model predicts: cycles of one core of a CPU, milliseconds of a GPU. None where no model
/// looks at it.
struct PredictedCost {
  std::optional<double> cycles, ms;
  double share = 0;  ///< of the sum of all predictions of the same device
};

struct Explanations {
  struct Member {
    std::string op, value;  ///< "%3": as the graph IR calls its result; empty: it has none
    Why why;
  };
  /// A value that the kernel reads of another one, and why that one computes it.
  struct Read {
    size_t from = 0;    ///< index of the other kernel
    std::string value;  ///< "%3"
    std::vector<std::string> views;
    Why why;
  };
  struct Kernel {
    /// Of the plan; none: no kernel, but what the plan does itself, as control flow.
    std::optional<size_t> step;
    /// "conv_relu_1", "nn.conv[winograd4]+nn.relu"; where there is no kernel both are the op's name.
    std::string symbol, name;
    std::vector<std::string> nodes;
    std::string decision;
    const KernelRule* rule = nullptr;  ///< that scheduled it; null: none of the target's
    /// Why it is computed without tiles on a GPU: what its rules chose asks for more than there is. Empty: it does not.
    std::string misfit;
    PredictedCost cost;
    std::vector<Member> members;
    std::vector<Read> reads;
  };
  /// A node that changes the order of a tensor's bytes for another one, and is left in the graph.
  struct Conversion {
    size_t kernel = 0;                ///< index of that which computes it
    bool on_the_way = false;          ///< as part of what else the kernel does
    std::string op, value, wish;      ///< "transpose", "%3", "channels last"
    std::string reader;               ///< op that wants it so; empty: the graph returns it
    std::vector<std::string> origin;  ///< of the reader
    Dim bytes;                        ///< read and written for it; on the way: read in another order
    PredictedCost cost;               ///< of a kernel that does nothing else
  };
  std::string target;
  std::vector<Kernel> kernels;  ///< in execution order
  std::vector<Conversion> conversions;
  std::vector<MemoryMap> memories;
};

/// Compiles the model down to the loop nests and the plan. Errors: as plan_program.
Explanations explain_program(const Graph& graph, const Target& target, CompileOptions options);

/// Of each kernel with the node in it that has a misfit: a line with its name and why; empty where none has.
std::string misfits_text(const LoweredProgram& program, const std::string& node);

/// `width` of the terminal; 0: unlimited.
std::string to_text(const Explanations& explanations, size_t width);
nlohmann::ordered_json to_json(const Explanations& explanations);

}  // namespace gantry::cli
