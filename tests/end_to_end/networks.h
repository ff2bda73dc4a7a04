// What the end-to-end tests share: references from files, and the ways to run a network.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "host/graph/graph.h"
#include "host/onnx/import.h"

namespace gantry::end_to_end {

/// Agreement that is asked of f32 networks: max |difference| / max |expected|.
inline constexpr double kTolerance = 1e-5;

/// Runs a compiled module file on inputs in the model's order.
using Runner = std::function<std::vector<ConstantPtr>(const Graph&, const std::vector<ConstantPtr>&)>;
/// Compiled for a target that this machine can run.
Runner run_here(const std::string& target = "native", int opt_level = 3, int threads = 2);
/// Compiled for AArch64, over RPC on an emulated board, which starts with the first run.
Runner run_on_emulated_board(const std::string& target = "aarch64");

/// Largest relative_error of the outputs; infinity where their number differs.
double worst_error(const std::vector<ConstantPtr>& actual, const std::vector<ConstantPtr>& expected);

/// A tensor of ONNX's test data, and one from a .npy file. Throw if the file is not there or is no tensor.
ConstantPtr read_onnx_tensor(const std::filesystem::path& path);
ConstantPtr read_npy_tensor(const std::filesystem::path& path);

/// A network of the zoo as a graph.
Graph zoo_graph(const std::string& name, int64_t size, int64_t batch = 1, bool dynamic = false,
                const ImportOptions& options = {});
/// Random values for every input, whose shapes must be known.
std::vector<ConstantPtr> random_inputs(const Graph& graph, uint64_t seed = 1);
std::vector<int64_t> shape_of(const Value& value);

}  // namespace gantry::end_to_end
