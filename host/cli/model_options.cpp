#include "host/cli/model_options.h"

#include <CLI/CLI.hpp>

#include "host/cli/between.h"
#include "host/cli/model_source.h"

namespace gantry::cli {

void add_keep_input_option(CLI::App& command, std::vector<std::string>& names) {
  command
      .add_option(
          "--keep-input", names,
          "Keeps an input that has a default in the model (an initialiser of its name), which is a constant "
          "otherwise: runs have to give it then; again for several")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

void add_decisions_option(CLI::App& command, std::string& decisions) {
  command
      .add_option("--decisions", decisions,
                  "How nodes are computed, instead of as the target would: lines that `gantry ir MODEL "
                  "--forms` prints")
      ->type_name("FILE");
}

void add_custom_ops_option(CLI::App& command, std::vector<std::string>& paths) {
  command
      .add_option("--custom-ops", paths,
                  "Ops that the model has and gantry has not: a folder with an ops.toml, or a shared library "
                  "made of one; again for several (docs/custom-ops.md)")
      ->type_name("PATH")
      ->allow_extra_args(false);
}

void add_optimization_options(CLI::App& command, int& opt_level, std::string& precision,
                              std::string& optimize) {
  command.add_option("--opt", opt_level, kOptHelp)->type_name("0..3")->check(between(0, 3));
  command
      .add_option(
          "--precision", precision,
          "How f32 is multiplied in convolutions and matrix products; default auto: the fastest within about "
          "1e-5 of fp32; fp16 is for GPUs and for CPUs with half-precision arithmetic, within about 3e-3")
      ->type_name("auto|fp32|fp32-split|fp32-split3|bf16|tf32|fp16");
  command.add_option("--optimize", optimize, kOptimizeHelp)->type_name("speed|size|fast-math");
}

void add_shape_options(CLI::App& command, std::vector<std::string>& shapes, std::vector<std::string>& sizes) {
  command
      .add_option(
          "--shape", shapes,
          "Fixes an input's symbolic dimensions; ? leaves one open, 1..8 limits it; of a dimension by its "
          "name: NAME=4, NAME=1..8; none: an optional input has no value")
      ->type_name("NAME=1x3x224x?")
      ->allow_extra_args(false);
  command
      .add_option(
          "--dim", sizes,
          "Fixes a symbolic dimension by its name, or limits it: the model's, or INPUT_dAXIS for one without")
      ->type_name("NAME=SIZE|LOW..HIGH")
      ->allow_extra_args(false);
}

}  // namespace gantry::cli
