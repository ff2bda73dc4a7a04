// Networks of section 3: how each is made, compiled and measured.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/gpu/context.h"

namespace gantry::gpu_bundle {

struct Network {
  std::string name;
  bool in_zoo = true;  ///< `gantry zoo` writes it; torch_bench.py knows all
};
/// The ten of docs/performance.md, those that tell most first.
const std::vector<Network>& networks();

/// What is measured together: a batch size and how f32's products are computed.
struct Setting {
  int batch = 1;
  std::string precision;
  double tolerance = 0;  ///< max |difference| / max |expected| beside the reference
};

/// All of them, in the order in which they are tried.
std::span<const Setting> settings();
/// "8/fp16".
std::string setting_name(const Setting& setting);

/// Whether `gantry zoo` writes the network of that name.
bool is_in_zoo(const std::string& name);

/// So many models are made side by side.
size_t models_at_once(const Context& context);

/// "resnet50, batch 8, fp16": the name of its row.
std::string row_name(const std::string& network, const Setting& setting);

/// Model files with what they must give, made when first asked for: exported by PyTorch where it is, else the
/// zoo's with gantry's result on the CPU as the reference.
class Models {
 public:
  struct Model {
    std::string path;               ///< .onnx; empty: it could not be made
    std::string problem;            ///< why not
    std::string reference;          ///< what its outputs are compared with
    std::vector<std::string> data;  ///< arguments of `gantry run` that give inputs and expectation
  };
  /// Makes those that are missing, side by side.
  void make(Context& context, const std::vector<Network>& wanted, int batch, Clock::time_point until);
  /// One without a path where it has not been made.
  const Model& get(const std::string& network, int batch) const;
  bool has(const std::string& network, int batch) const { return models_.count({network, batch}) != 0; }

 private:
  std::map<std::pair<std::string, int>, Model> models_;
};

/// Compiles a model for the GPU in that precision, side by side; why not, by row name, where that fails.
std::map<std::string, std::string> compile(Context& context, const Models& models,
                                           const std::vector<Network>& wanted, const Setting& setting,
                                           Clock::time_point until);
std::string module_path(const Context& context, const std::string& network, const Setting& setting);

/// Compares outputs, times and profiles the compiled module on the GPU: the fields of its row.
Json measure(Context& context, const Models::Model& model, const std::string& network, const Setting& setting,
             Clock::time_point until);

/// The slowest kernels of a `bench --profile` document, each with the time that the GPU's measured peaks
/// allow it ("roof_ms") as a share of the time that it took ("of_roof"), and what that time is bound by. No
/// shares without peaks.
Json slowest_kernels(const Json& bench, const Json& peaks, const std::string& precision, size_t count = 10);

}  // namespace gantry::gpu_bundle
