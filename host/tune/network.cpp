#include "host/tune/network.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "host/driver/decision_file.h"
#include "host/driver/left_to_cpu.h"
#include "host/forms/exact_weights.h"
#include "host/graph/text.h"
#include "host/ops/op.h"
#include "host/passes/pass.h"
#include "host/passes/work_digest.h"
#include "host/records/work_program.h"
#include "host/support/in_parallel.h"
#include "host/tune/fused_edges.h"
#include "host/tune/lone_look.h"
#include "host/tune/prior.h"
#include "host/tune/space.h"

namespace gantry::tune {
namespace {

/// The pass that applies decisions.
constexpr std::string_view kDecides = "alter_layout";

/// The one that makes kernels.
constexpr std::string_view kFuses = "fuse_ops";

/// The stage before any of them (CompileObserver::graph_pass).
constexpr std::string_view kImport = "import";

/// Those that combine products where that is asked for.
constexpr std::string_view kCombine[] = {"combine_parallel_conv2d", "combine_parallel_batch_matmul"};

/// Whether the pass would change the graph, behind which it stands in the pipeline.
bool has_work(std::string_view name, const Graph& graph) {
  const Pass* pass = find_pass(name);
  internal_check(pass != nullptr, "there is no pass {}", name);
  Graph copy = clone_graph(graph);
  PassContext context;
  context.combine_parallel = true;
  pass->run(copy, context);
  return context.rewrites > 0;
}

/// What the untuned compilation tells of a program of the module.
struct UntunedProgram {
  bool on_cpu = false;   ///< of a GPU's target: the CPU beside the GPU runs all of it
  bool decided = false;  ///< the pass that decides has run
  std::vector<NodeDecision> decisions;
  std::optional<Graph> before;                         ///< main as it was when decisions were made
  bool may_combine = false;                            ///< products that are apart may be one
  NetworkDecision network;
  std::vector<FusedEdge> fused;                        ///< of main, where kernels were made of it
  std::vector<std::vector<std::string>> step_origins;  ///< by index in the plan; empty: calls no kernel
  std::vector<std::string> step_kernels;
};

struct Untuned {
  ModuleFile module;
  std::vector<UntunedProgram> programs;  ///< in the order of its variants
};

Untuned compile(const Graph& graph, CompileOptions options) {
  Untuned untuned;
  UntunedProgram now;  // that is compiled
  FusionReport fusion;
  const Target& target = options.targets.front();
  options.observer.decisions = &now.decisions;
  options.observer.network = &now.network;
  options.observer.fusion = &fusion;
  options.observer.graph_pass = [&](const std::string& pass, const Graph& then) {
    if (pass == kImport) now.on_cpu = !why_left_to_cpu(then.main, target).empty();
    now.decided = now.decided || pass == kDecides;
    if (!now.decided) now.before = clone_graph(then);
    // Nodes of the report live as long as the graph.
    if (pass == kFuses && now.fused.empty()) now.fused = fused_edges(fusion);
    for (const std::string_view combines : kCombine)
      if (pass == combines) now.may_combine = now.may_combine || has_work(combines, then);
  };
  options.observer.lowered = [&](const LoweredProgram& program, const Target&) {
    now.step_origins = step_origins_of(program);
    now.step_kernels.resize(now.step_origins.size());
    for (const KernelStep& step : program.steps) now.step_kernels[step.step] = program.ops[step.kernel];
    untuned.programs.push_back(std::exchange(now, {}));
  };
  untuned.module = compile_graph(clone_graph(graph), options);
  return untuned;
}

/// As Network::target(): `on_cpu` as of the tuned program. The CPU beside a GPU computes in its own
/// precision.
Target computing_target(const CompileOptions& options, bool on_cpu) {
  const Target& named = options.targets.front();
  return on_cpu ? host_target(named) : with_precision(named, options.precision);
}

/// What programs that are not tuned have decided for nodes that the tuned one has not.
struct OfOthers {
  std::vector<NodeDecision> lines;
  std::vector<Separation> apart;

  void add(const UntunedProgram& other, const UntunedProgram& tuned) {
    const auto is_same = [](const NodeDecision& a, const NodeDecision& b) {
      return a.op == b.op && a.origin == b.origin;
    };
    for (const NodeDecision& line : other.decisions) {
      if (std::ranges::none_of(tuned.decisions, [&](const NodeDecision& own) { return is_same(own, line); }))
        lines.push_back(line);
    }
    for (const Separation& edge : other.network.apart) {
      if (std::ranges::find(tuned.network.apart, edge) == tuned.network.apart.end()) apart.push_back(edge);
    }
  }
};

/// Of its nodes, or of those of branches and loops.
bool has_decisions(const Function& function) {
  return std::ranges::any_of(function.nodes(), [](const Node* node) {
    return node->decision || std::ranges::any_of(node->bodies, [](const std::unique_ptr<Function>& body) {
             return has_decisions(*body);
           });
  });
}

bool intersect(const std::vector<std::string>& names, const std::set<std::string>& some) {
  return std::ranges::any_of(names, [&](const std::string& name) { return some.contains(name); });
}

}  // namespace

struct Network::Parts {
  Graph graph;
  CompileOptions options;
  size_t program = 0;  ///< that is tuned: its place in the module
  Target target;
  CompileOptions lone;  ///< of nodes by themselves: for what computes the program
  Graph before;
  forms::FormContext context;
  std::deque<FormQuestion> questions;  ///< of the first node of each task
  std::vector<NodeDecision> lines;     ///< of all nodes, untuned
  std::vector<std::optional<size_t>> task_of_line;
  OfOthers of_others;
  std::vector<Task> tasks;
  NetworkDecision network;  ///< untuned
  bool may_combine = false;
  bool has_given_decisions = false;
  std::vector<std::set<std::string>> works;    ///< of each task: work_name() of its nodes
  std::vector<std::set<std::string>> origins;  ///< of each task: of what its kernels compute, untuned
  BuiltNetwork untuned;
  int threads = 1;  ///< that compute
  std::mutex looks_mutex;
  std::map<std::pair<size_t, std::string>, Look> looks;

  void find_tasks();
  void find_origins(const UntunedProgram& compiled);
  void find_fusions(const std::vector<FusedEdge>& fused);
  std::optional<size_t> task_of(const std::vector<std::string>& step) const;
  std::vector<std::vector<size_t>> steps_of(const std::vector<std::vector<std::string>>& step_origins) const;
  std::vector<NodeDecision> lines_of(const Choices& choices) const;
};

/// Nodes of equal work, with the same decision, are one task.
void Network::Parts::find_tasks() {
  std::map<std::pair<std::string, std::string>, size_t> known;
  task_of_line.resize(lines.size());
  int64_t number = -1;
  for (const Node* node : before.main.nodes()) {
    ++number;
    // Lines are in the order of nodes; those of the functions that control flow calls have no node here.
    size_t line = 0;
    for (; line < lines.size(); ++line) {
      if (!task_of_line[line] && lines[line].op == node->op && lines[line].origin == node->origin) break;
    }
    if (line == lines.size()) continue;
    const NodeDecision& decided = lines[line];
    const auto [entry, is_new] = known.try_emplace({decided.work, to_string(decided.decision)}, tasks.size());
    task_of_line[line] = entry->second;
    if (is_new) {
      questions.push_back({.node = *node, .weight = node->inputs.size() > 1 ? node->inputs[1] : nullptr});
      Task& task = tasks.emplace_back();
      task.work = decided.work;
      task.program = records::work_program(before.main, *node).text;
      task.op = node->op->name;
      task.kernel = node->op->name;
      task.untuned = decided.decision;
      task.space = space_of(questions.back(), context, decided.decision);
      task.layouts = layouts_of(questions.back(), context, decided.decision);
    }
    tasks[entry->second].nodes.push_back(origin_text(node->origin));
    tasks[entry->second].numbers.push_back(number);
  }
}

/// Names of a task's own nodes, and of what its kernels take in.
void Network::Parts::find_origins(const UntunedProgram& compiled) {
  works.resize(tasks.size());
  origins.resize(tasks.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!task_of_line[i]) continue;
    for (const std::string& name : lines[i].origin) {
      works[*task_of_line[i]].insert(work_name(lines[i].op->name, name));
      origins[*task_of_line[i]].insert(name);
    }
  }
  std::vector<std::optional<size_t>> task_of_step;
  for (const std::vector<std::string>& step : compiled.step_origins) task_of_step.push_back(task_of(step));
  for (size_t i = 0; i < task_of_step.size(); ++i) {
    if (!task_of_step[i]) continue;
    const size_t task = *task_of_step[i];
    origins[task].insert(compiled.step_origins[i].begin(), compiled.step_origins[i].end());
    if (intersect(compiled.step_origins[i], works[task])) tasks[task].kernel = compiled.step_kernels[i];
  }
}

/// The task whose node the step computes; else, of conversions around one and what was fused with it, the first of
/// such a name.
std::optional<size_t> Network::Parts::task_of(const std::vector<std::string>& step) const {
  for (const auto* names : {&works, &origins}) {
    const auto found = std::ranges::find_if(*names, [&](const auto& some) { return intersect(step, some); });
    if (found != names->end()) return static_cast<size_t>(found - names->begin());
  }
  return std::nullopt;
}

/// What the kernels of tasks take in that could be a kernel of its own.
void Network::Parts::find_fusions(const std::vector<FusedEdge>& fused) {
  for (const FusedEdge& one : fused) {
    const auto edge = numbered(before.main, one.edge);
    if (!edge) continue;  // it was made behind the decisions
    const auto is_anchor = [&](int64_t number) {
      return name_of(*before.main.nodes()[static_cast<size_t>(number)]) == one.anchor;
    };
    for (Task& task : tasks) {
      if (std::ranges::none_of(task.numbers, is_anchor)) continue;
      auto fusion = std::ranges::find(task.fusions, one.what, &OtherFusion::what);
      if (fusion == task.fusions.end()) fusion = task.fusions.insert(fusion, {one.what, {}});
      fusion->apart.push_back(*edge);
      break;
    }
  }
}

std::vector<std::vector<size_t>> Network::Parts::steps_of(
    const std::vector<std::vector<std::string>>& step_origins) const {
  std::vector<std::vector<size_t>> steps(tasks.size());
  for (size_t step = 0; step < step_origins.size(); ++step) {
    if (const auto task = task_of(step_origins[step])) steps[*task].push_back(step);
  }
  return steps;
}

std::vector<NodeDecision> Network::Parts::lines_of(const Choices& choices) const {
  std::vector<NodeDecision> chosen = lines;
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (task_of_line[i]) chosen[i].decision = choices[*task_of_line[i]];
  }
  return chosen;
}

Network::Network(Graph graph, CompileOptions options, size_t program) : parts_(std::make_unique<Parts>()) {
  Parts& parts = *parts_;
  internal_check(options.targets.size() == 1, "tuning is for one target");
  parts.graph = std::move(graph);
  parts.options = std::move(options);
  parts.program = program;
  parts.has_given_decisions = parts.options.decisions != nullptr || has_decisions(parts.graph.main);
  Untuned untuned = compile(parts.graph, parts.options);
  internal_check(program < untuned.programs.size(), "there is no program {} to be tuned", program);
  UntunedProgram compiled = std::move(untuned.programs[program]);
  for (size_t i = 0; i < untuned.programs.size(); ++i)
    if (i != program) parts.of_others.add(untuned.programs[i], compiled);
  parts.network = compiled.network;
  parts.may_combine = compiled.may_combine && !parts.network.combined;
  parts.lines = std::move(compiled.decisions);
  if (compiled.before) parts.before = std::move(*compiled.before);
  parts.target = computing_target(parts.options, compiled.on_cpu);
  parts.context = {parts.target, parts.options.optimize == Optimize::kSize, {}};
  parts.context.exact_kinds = forms::kinds_for_exact_weights(parts.before.main, {.target = parts.target});
  parts.options.decisions = nullptr;  // all nodes have a line from now on
  parts.options.observer = {};
  parts.lone = parts.options;
  parts.lone.targets = {parts.target};
  parts.lone.precision = parts.target.precision;
  parts.find_tasks();
  parts.find_origins(compiled);
  parts.find_fusions(compiled.fused);
  parts.untuned.steps = parts.steps_of(compiled.step_origins);
  parts.untuned.module = std::move(untuned.module);
}

Network::~Network() = default;

const std::vector<Task>& Network::tasks() const {
  return parts_->tasks;
}

Choices Network::untuned_choices() const {
  Choices choices;
  for (const Task& task : parts_->tasks) choices.push_back(task.untuned);
  choices.combined = parts_->network.combined;
  choices.apart = parts_->network.apart;
  return choices;
}

bool Network::may_combine() const {
  return parts_->may_combine;
}

bool Network::has_given_decisions() const {
  return parts_->has_given_decisions;
}

const BuiltNetwork& Network::untuned() const {
  return parts_->untuned;
}

std::string Network::digest(NetworkQuestion question) const {
  return network_digest(parts_->before.main, question);
}

const Target& Network::target() const {
  return parts_->target;
}

const std::string& Network::target_name() const {
  return parts_->options.targets.front().name;
}

size_t Network::program() const {
  return parts_->program;
}

std::string Network::decisions_text(const Choices& choices) const {
  const OfOthers& others = parts_->of_others;
  std::vector<NodeDecision> lines = parts_->lines_of(choices);
  lines.insert(lines.end(), others.lines.begin(), others.lines.end());
  NetworkDecision network{choices.combined, choices.apart};
  network.apart.insert(network.apart.end(), others.apart.begin(), others.apart.end());
  return gantry::decisions_text(target_name(), lines, network);
}

void Network::set_threads(int threads) {
  parts_->threads = threads;
}

std::vector<Example> Network::prior(records::Store& store, const records::Setting& setting) const {
  // Enough to learn from; each is lowered, a few a second at worst.
  constexpr size_t kMost = 400;
  return examples_of(store, setting, parts_->lone, kMost, parts_->tasks.size());
}

BuiltNetwork Network::build(const Choices& choices) const {
  ModelBuild build = build_model(parts_->graph, parts_->options, decisions_text(choices), parts_->program);
  return {std::move(build.module), parts_->steps_of(build.step_origins)};
}

std::vector<std::vector<size_t>> Network::steps_of(
    const std::vector<std::vector<std::string>>& step_origins) const {
  return parts_->steps_of(step_origins);
}

PackedModel Network::pack(const std::filesystem::path& path) const {
  return pack_model(parts_->graph, parts_->options, parts_->program, path);
}

std::vector<Look> Network::look_at(size_t task, const std::vector<Decision>& decisions) {
  std::vector<Look> looks(decisions.size());
  std::vector<std::exception_ptr> failures(decisions.size());
  Parts& parts = *parts_;
  in_parallel(static_cast<int64_t>(decisions.size()), [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const std::pair key(task, to_string(decisions[i]));
      {
        const std::scoped_lock lock(parts.looks_mutex);
        if (const auto known = parts.looks.find(key); known != parts.looks.end()) {
          looks[i] = known->second;
          continue;
        }
      }
      try {
        looks[i] = look_at_lone(parts.before.main, parts.questions[task].node, decisions[i], parts.lone,
                                parts.threads);
      } catch (...) {
        failures[i] = std::current_exception();
        continue;
      }
      const std::scoped_lock lock(parts.looks_mutex);
      parts.looks.emplace(key, looks[i]);
    }
  });
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return looks;
}

}  // namespace gantry::tune
