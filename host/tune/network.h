// A network as a tuner has it: its tasks, and the programs that are made of it by their decisions.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "host/codegen/module_file.h"
#include "host/driver/compile.h"
#include "host/records/store.h"
#include "host/tune/cost_model.h"
#include "host/tune/measurer.h"
#include "host/tune/model_build.h"
#include "host/tune/task.h"

namespace gantry::tune {

/// A program by some choices.
struct BuiltNetwork {
  ModuleFile module;
  /// Of each task the steps of the tuned program's plan that compute its nodes, and what is fused with them
  /// untuned: where a decision moves an elementwise step out of the kernel, its time still counts.
  std::vector<std::vector<size_t>> steps;
};

/// Also the screen of its tasks: each decision is lowered with its node alone.
class Network : public Screen {
 public:
  /// `options`: how it is compiled, for one target; its observer is not used, but for progress. Decisions of
  /// the options are part of the untuned program. `program`: of those that the module has, the one that is
  /// tuned, by its place: the tasks are its kernels. The others are in every module, by the same decisions
  /// where they have the same nodes. Errors: those of compile_graph.
  Network(Graph graph, CompileOptions options, size_t program = 0);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network() override;

  const std::vector<Task>& tasks() const;
  /// Of the untuned program, with what the options' decisions say of the network as a whole.
  Choices untuned_choices() const;
  /// There are products of the same data that may be combined, and the untuned program has them apart.
  bool may_combine() const;
  /// The options or the text of the graph have some: the untuned program is not what the compiler takes by
  /// itself.
  bool has_given_decisions() const;
  /// Of the untuned program; compiled while the tasks were found.
  const BuiltNetwork& untuned() const;
  /// network_digest() of the function that decisions are made for.
  std::string digest(NetworkQuestion question) const;
  /// What computes the tuned program, in its precision: what it is compiled for, or the CPU beside that GPU,
  /// which then runs all of it.
  const Target& target() const;
  /// What programs are compiled for, and decisions are given for.
  const std::string& target_name() const;
  /// That is tuned: its place in modules.
  size_t program() const;

  /// Thread-safe. Errors: user errors that name the node for choices that do not fit together.
  BuiltNetwork build(const Choices& choices) const;
  /// As of BuiltNetwork, of a program that was built elsewhere: by what its steps compute (ModelBuild).
  std::vector<std::vector<size_t>> steps_of(const std::vector<std::vector<std::string>>& step_origins) const;
  /// All that programs are built of but the decisions, as a file: pack_model().
  PackedModel pack(const std::filesystem::path& path) const;
  /// The decisions of all nodes, as --decisions takes them.
  std::string decisions_text(const Choices& choices) const;

  /// As many threads will compute, for what is looked at from now on; until then one.
  void set_threads(int threads);

  /// What records of other networks tell of this target; groups are those beyond the tasks'.
  std::vector<Example> prior(records::Store& store, const records::Setting& setting) const;

  std::vector<Look> look_at(size_t task, const std::vector<Decision>& decisions) override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace gantry::tune
