#include "host/driver/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

#include "host/driver/custom_builder.h"
#include "host/driver/left_to_cpu.h"
#include "host/driver/pipeline.h"
#include "host/driver/spill_constants.h"
#include "host/ops/builtin.h"
#include "host/ops/control.h"
#include "host/ops/custom.h"
#include "host/ops/device_copy.h"
#include "host/ops/op.h"
#include "host/passes/fusion_report.h"
#include "host/passes/layout_record.h"
#include "host/passes/symbol_order.h"
#include "host/support/error.h"
#include "host/targets/common/knob_misfit.h"

namespace gantry {
namespace {

/// The first place in a file where a decision of the kernel's nodes stands, and ": "; empty where none does.
std::string place_of(const KernelWork& work) {
  for (const KernelWork::Step& step : work.steps()) {
    if (step.decision != nullptr && !step.decision->place.empty()) return step.decision->place + ": ";
  }
  return "";
}

/// A kernel that cannot be scheduled as its nodes' decisions say.
class UnfitKernel : public KnobMisfit {
 public:
  UnfitKernel(const std::string& message, const KernelWork& work) : KnobMisfit(place_of(work) + message) {
    for (const KernelWork::Step& step : work.steps()) {
      if (step.decision != nullptr) nodes_.emplace_back(step.op, step.origin);
    }
  }
  /// The decision was made for a node that is in the kernel.
  bool concerns(const NodeDecision& decision) const {
    return std::ranges::any_of(
        nodes_, [&](const auto& node) { return node.first == decision.op && node.second == decision.origin; });
  }

 private:
  std::vector<std::pair<const OpBase*, std::vector<std::string>>> nodes_;
};

/// What records say, but of works and networks of which it has turned out that what they say does not fit.
class FittingRecords : public RecordedDecisions {
 public:
  using Misfits = std::map<std::string, std::string>;  ///< why, by NodeDecision::record_key
  FittingRecords(std::shared_ptr<RecordedDecisions> all, const Misfits& misfits)
      : all_(std::move(all)), misfits_(misfits) {}
  Answer find(const std::string& work) override {
    const auto misfit = misfits_.find(work);
    if (misfit == misfits_.end()) return all_->find(work);
    return {.unused = {misfit->second}};
  }
  NetworkAnswer find_network(const std::string& network) override {
    const auto misfit = misfits_.find(network);
    if (misfit == misfits_.end()) return all_->find_network(network);
    return {.unused = {misfit->second}};
  }

 private:
  std::shared_ptr<RecordedDecisions> all_;
  const Misfits& misfits_;
};

// Names the kernels of a program: C identifiers that say what runs, each once.
class KernelNames {
 public:
  /// "nn.conv[winograd4]+add+nn.relu" -> "conv_add_relu_1". All have a number: "exp" alone would be the name
  /// of a function of the C library too.
  std::string name_for(const std::string& ops) {
    const std::string base = base_of(ops);
    return fmt::format("{}_{}", base, ++counts_[base]);
  }

  /// The same of a call of a custom op: "my.domain::My-Op" -> "custom_My_Op_1".
  std::string name_for_custom(const std::string& op) {
    const size_t colon = op.rfind(':');
    const std::string base =
        ("custom_" + letters_of(op.substr(colon == std::string::npos ? 0 : colon + 1))).substr(0, kMaxLength);
    return fmt::format("{}_{}", base, ++counts_[base]);
  }

 private:
  static constexpr size_t kMaxLength = 36;

  // The ops without their families and algorithms; of many as many as are worth reading.
  static std::string base_of(const std::string& ops) {
    std::string base;
    for (size_t begin = 0; begin < ops.size();) {
      const size_t end = end_of_op(ops, begin);
      const std::string op = identifier(ops.substr(begin, end - begin));
      if (!base.empty() && base.size() + 1 + op.size() > kMaxLength) return base + "_etc";
      base += (base.empty() ? "" : "_") + op;
      begin = end + 1;
    }
    return base;
  }
  static size_t end_of_op(const std::string& ops, size_t begin) {
    const size_t bracket = ops.find('[', begin), plus = ops.find('+', begin);
    if (bracket == std::string::npos || bracket > plus) return std::min(plus, ops.size());
    return std::min(ops.find('+', ops.find(']', bracket)), ops.size());
  }
  static std::string identifier(const std::string& op) {
    const std::string_view name = std::string_view(op).substr(0, op.find('['));
    const size_t family = name.rfind('.');
    return letters_of(std::string(family == std::string_view::npos ? name : name.substr(family + 1)));
  }
  static std::string letters_of(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
    return text;
  }

  std::map<std::string, size_t> counts_;
};

std::string where(const Node& node) {
  std::string text;
  for (const std::string& name : node.origin) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "(no node of the model)" : text;
}

/// Every result is empty.
bool computes_nothing(const Node& node) {
  return std::ranges::all_of(node.results, [](const Value* result) {
    const Dim count = element_count(result->type.shape);
    return count.is_constant() && count.value() == 0;
  });
}

/// The kernels of a program: equal works are lowered once, and works whose kernels print alike share one.
class KernelTable {
 public:
  KernelTable(Program& program, const Target& target, const CompileOptions& options)
      : program_(program), target_(target), host_(host_target(target)), options_(options) {}

  /// Adds the call of the node's kernel.
  void add_call(const Node& node, size_t step, std::vector<KernelCall>& calls) {
    const KernelWork work(node);
    const bool on_gpu = target_.for_gpu() && node.placement != Placement::kCpu;
    const Known& known = kernel_of(node, work, on_gpu);
    calls.push_back({&node, known.kernel, step, work.buffers(), known.sizes.bound_by(work), known.misfit});
  }

 private:
  struct Known {
    size_t kernel = 0;  ///< index into Program::kernels
    KernelSizes sizes;
    std::string misfit;
  };

  const Known& kernel_of(const Node& node, const KernelWork& work, bool on_gpu) {
    const auto [known, is_new] = by_work_.try_emplace((on_gpu ? "gpu\n" : "cpu\n") + work.key());
    // Whoever schedules nodes himself is asked of each.
    if (is_new || options_.own_kernel) known->second = lowered(node, work, on_gpu);
    return known->second;
  }

  Known lowered(const Node& node, const KernelWork& work, bool on_gpu) {
    TimedSpan span(options_.observer.spans, "lowering", "");
    // What a kernel is called is only known once it is built and is like no other: the observer hears of it
    // then.
    std::vector<std::pair<std::string, LoopKernel>> steps;
    LoopObserver record;
    if (options_.observer.loop_pass)
      record = [&](std::string_view step, const LoopKernel& kernel) { steps.emplace_back(step, kernel); };
    BuiltKernel built = build(node, work, on_gpu ? target_ : host_, record);
    const auto [entry, is_new] = by_text_.try_emplace(to_string(built.kernel), program_.kernels.size());
    if (is_new) {
      if (built.custom) program_.custom.emplace(program_.kernels.size(), built.custom);
      add_kernel(node, std::move(built.kernel), on_gpu);
      for (auto& [step, kernel] : steps) {
        kernel.name = program_.kernels.back().name;
        options_.observer.loop_pass(step, kernel);
      }
    }
    span.rename(program_.kernels[entry->second].name);
    span.say("ops", program_.ops[entry->second]);
    span.say("nodes", where(node));
    return {entry->second, std::move(built.sizes), std::move(built.misfit)};
  }

  BuiltKernel build(const Node& node, const KernelWork& work, const Target& target,
                    const LoopObserver& observe) {
    try {
      if (node.is(op::custom)) {
        return target.device == DeviceKind::kGpu ? build_custom_launch(work, "kernel")
                                                 : build_custom_kernel(work, "kernel");
      }
      return build_kernel(node, work, target, "kernel", observe, options_);
    } catch (const KnobMisfit& misfit) {
      throw UnfitKernel(misfit.what(), work);  // which names op and node
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("while lowering {} for node {}: {}", display_name(node),
                                            where(node), error.what()));
    }
  }

  void add_kernel(const Node& node, LoopKernel kernel, bool on_gpu) {
    const std::string ops = display_name(node);
    const CustomAttrs* custom = node.match(op::custom);
    kernel.name = custom == nullptr ? names_.name_for(ops) : names_.name_for_custom(custom->op);
    program_.kernels.push_back(std::move(kernel));
    program_.ops.push_back(ops);
    program_.main_ops.push_back(main_op(node));
    program_.on_gpu.push_back(on_gpu);
  }

  Program& program_;
  const Target& target_;
  const Target host_;
  const CompileOptions& options_;
  KernelNames names_;
  std::unordered_map<std::string, Known> by_work_;
  std::unordered_map<std::string, size_t> by_text_;  ///< of the loop nest
};

void run_on_cpu(Function& function) {
  for (Node* node : function.nodes()) {
    node->placement = Placement::kCpu;
    for (const auto& body : node->bodies) {
      if (is_control_flow(*node)) run_on_cpu(*body);
    }
  }
}

/// The kernels of a function and of those that its control flow calls.
class FunctionLowering {
 public:
  FunctionLowering(Program& program, KernelTable& kernels, const Target& target,
                   const CompileOptions& options)
      : program_(program), kernels_(kernels), target_(target), options_(options) {}

  void run(Function& function, bool is_main) {
    order_by_symbols(function);
    size_t step = 0;
    const auto& nodes = function.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = *nodes[i];
      if (is_main && options_.observer.progress)
        options_.observer.progress("lowering " + target_.name, double(i) / double(nodes.size()));
      if (is_control_flow(node)) {
        for (const auto& body : node.bodies) run(*body, false);
      }
      if (is_device_copy(node) || op_def(node).bound_symbols || is_builtin(node)) ++step;
      if (op_def(node).is_view || is_builtin(node) || is_device_copy(node) || is_control_flow(node) ||
          computes_nothing(node))
        continue;
      kernels_.add_call(node, step++, is_main ? program_.calls : program_.nested);
    }
  }

 private:
  Program& program_;
  KernelTable& kernels_;
  const Target& target_;
  const CompileOptions& options_;
};

/// Passes for the CPU beside a GPU. Decisions given are those for the target asked for, records those of the
/// CPU.
GraphDecisions optimise_for_cpu(Graph& graph, const Target& target, CompileOptions options) {
  const Target cpu = host_target(target);
  if (options.records) options.records = [&cpu, all = options.records](const Target&) { return all(cpu); };
  GraphDecisions decisions = run_graph_passes(graph, cpu_by_name_of(target), options);
  run_on_cpu(graph.main);
  return decisions;
}

void optimise(Program& program, const Target& target, const CompileOptions& options) {
  Graph& graph = program.graph;
  const std::string why = why_left_to_cpu(graph.main, target);
  const bool on_cpu = !why.empty();
  if (on_cpu && options.observer.note) options.observer.note(why);
  program.precision = on_cpu ? host_target(target).precision : target.precision;
  GraphDecisions decided =
      on_cpu ? optimise_for_cpu(graph, target, options) : run_graph_passes(graph, target, options);
  program.decisions = std::move(decided.nodes);
  program.network = std::move(decided.network);
}

void lower(Program& program, const Target& target, const CompileOptions& options) {
  KernelTable kernels(program, target, options);
  FunctionLowering(program, kernels, target, options).run(program.graph.main, true);
}

/// Puts down which recorded decisions are why the kernel does not fit; throws it again if there are none.
void note_misfit(const UnfitKernel& kernel, const std::vector<NodeDecision>& decisions,
                 FittingRecords::Misfits& misfits) {
  bool recorded = false;
  for (const NodeDecision& node : decisions) {
    if (node.record.empty() || !kernel.concerns(node)) continue;
    recorded = true;
    misfits.try_emplace(node.record_key, fmt::format("{}: {}", node.record, kernel.what()));
  }
  if (!recorded) throw UnfitKernel(kernel);
}

/// Whether a decision fits a kernel shows when that is scheduled: then all is done again without it.
Program build_with_records(const Graph& graph, const Target& target, CompileOptions options) {
  FittingRecords::Misfits misfits;
  options.records = [&, all = options.records](const Target& asked) -> std::shared_ptr<RecordedDecisions> {
    auto records = all(asked);
    return records == nullptr ? nullptr : std::make_shared<FittingRecords>(std::move(records), misfits);
  };
  CompileObserver& observer = options.observer;
  const size_t told = observer.decisions == nullptr ? 0 : observer.decisions->size();
  const size_t told_of_network = observer.network_records == nullptr ? 0 : observer.network_records->size();
  for (;;) {
    Program program{clone_graph(graph), {}, {}, {}, {}, {}, {}};
    optimise(program, target, options);
    try {
      lower(program, target, options);
      return program;
    } catch (const UnfitKernel& kernel) {
      note_misfit(kernel, program.decisions, misfits);
    }
    // What was heard of the program that is gone; fusions and layouts are of the last one alone.
    if (observer.decisions != nullptr) observer.decisions->resize(told);
    if (observer.network_records != nullptr) observer.network_records->resize(told_of_network);
    if (observer.fusion != nullptr) *observer.fusion = {};
    if (observer.layouts != nullptr) *observer.layouts = {};
  }
}

}  // namespace

Program build_program(const Graph& graph, const Target& target, const CompileOptions& options) {
  if (options.records) return build_with_records(graph, target, options);
  return build_program(clone_graph(graph), target, options);
}

Program build_program(Graph&& graph, const Target& target, const CompileOptions& options) {
  if (options.records) return build_with_records(graph, target, options);
  Program program{std::move(graph), {}, {}, {}, {}, {}, {}};
  optimise(program, target, options);
  if (options.spill != nullptr) spill_constants(program.graph, *options.spill);
  lower(program, target, options);
  return program;
}

}  // namespace gantry
