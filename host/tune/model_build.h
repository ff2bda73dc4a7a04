// Programs of a model by decisions as text, wherever they are built: here, or on a machine that got the model
// as a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "host/driver/compile.h"

namespace gantry::tune {

/// A module, and what the steps of one of its programs compute.
struct ModelBuild {
  ModuleFile module;
  /// By index in the plan: the model's nodes that a step computes, and work_name() of what was decided in it; empty: it
  /// calls no kernel.
  std::vector<std::vector<std::string>> step_origins;
};

/// `decisions`: of all nodes, as --decisions takes them (Network::decisions_text). `program`: whose steps are
/// told, by its place in the module. Errors: those of compile_graph; a user error where there is no such
/// program.
ModelBuild build_model(const Graph& graph, CompileOptions options, std::string_view decisions,
                       size_t program);

/// "nn.dense of lstm1": the part of a node of the model that an op computes. A recurrent layer's products and its
/// recurrence have one name in the model.
std::string work_name(std::string_view op, std::string_view origin);
/// What the steps of a program compute, as ModelBuild has it.
std::vector<std::vector<std::string>> step_origins_of(const LoweredProgram& program);
/// As text, a line a step; and back: a user error for what is none, or has more than `most_steps`.
std::string step_text(const std::vector<std::vector<std::string>>& step_origins);
std::vector<std::vector<std::string>> parse_step_text(std::string_view text, size_t most_steps);

/// A model in one file: `text_size` bytes of graph text, then its weights. `options`: how programs of it are
/// built.
struct PackedModel {
  std::string options;
  uint64_t text_size = 0;
};
/// Writes the file. Of the options it is kept what programs are compiled for and how, and whether there is a
/// cache of compiled kernels; no decisions. `program`: that is tuned, as of build_model(). The graph has no
/// ops of the user's: their code is not packed.
PackedModel pack_model(const Graph& graph, const CompileOptions& options, size_t program,
                       const std::filesystem::path& path);

/// Names of the files that unpack_model() reads in its folder.
inline constexpr char kPackedText[] = "model.gir";
inline constexpr char kPackedWeights[] = "model.gir.weights";

struct UnpackedModel {
  Graph graph;
  CompileOptions options;  ///< without a cache; as many threads as there are
  size_t program = 0;      ///< that is tuned
  bool use_cache = true;
};
/// `folder` has the text, and the weights if there are any; they are read while the result lives. User
/// errors: no such options; a text or weights that are none (read_gir); a target that is not known here.
UnpackedModel unpack_model(const std::string& options, const std::filesystem::path& folder);

}  // namespace gantry::tune
