#include "tests/end_to_end/networks.h"

#include <onnx/onnx_pb.h>

#include <fstream>
#include <limits>
#include <stdexcept>

#include "host/cli/npy.h"
#include "host/onnx/tensor_data.h"
#include "host/zoo/zoo.h"
#include "tests/support/compiled_model.h"
#include "tests/support/recorded_case.h"

namespace gantry::end_to_end {

namespace fs = std::filesystem;

Runner run_here(const std::string& target, int opt_level, int threads) {
  return [=](const Graph& graph, const std::vector<ConstantPtr>& inputs) {
    testing::LocalModel model(testing::compile_to_bytes(graph, {target, opt_level, 2}), threads,
                              testing::device_for(target));
    std::vector<ConstantPtr> outputs = model.run(inputs);
    if (testing::device_for(target) != "cpu") testing::record_case(graph, inputs, outputs);
    return outputs;
  };
}

Runner run_on_emulated_board(const std::string& target) {
  auto board = std::make_shared<testing::EmulatedBoard>();
  return [=](const Graph& graph, const std::vector<ConstantPtr>& inputs) {
    return testing::run_on_board(board->client(), testing::compile_to_bytes(graph, {target}), inputs);
  };
}

double worst_error(const std::vector<ConstantPtr>& actual, const std::vector<ConstantPtr>& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    worst = std::max(worst, testing::relative_error(*actual[i], *expected[i]));
  }
  return worst;
}

ConstantPtr read_onnx_tensor(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  auto tensor = std::make_shared<onnx::TensorProto>();
  if (!file || !tensor->ParseFromIstream(&file)) throw std::runtime_error(path.string() + " is no tensor");
  return TensorReader(tensor, path.parent_path()).read(*tensor, path.string());
}

ConstantPtr read_npy_tensor(const fs::path& path) {
  const cli::HostTensor tensor = cli::read_npy(path);
  const auto dtype = parse_dtype(cli::type_name(tensor.type));
  if (!dtype) throw std::runtime_error(path.string() + " has an unknown type");
  return make_constant({*dtype, Shape(tensor.shape.begin(), tensor.shape.end())}, tensor.bytes.data());
}

Graph zoo_graph(const std::string& name, int64_t size, int64_t batch, bool dynamic,
                const ImportOptions& options) {
  return import_onnx_bytes(build_zoo_model(name, {.batch = batch, .size = size, .dynamic = dynamic}), "",
                           options);
}

std::vector<int64_t> shape_of(const Value& value) {
  auto shape = constant_shape(value.type.shape);
  if (!shape) throw std::runtime_error("input " + value.name + " has a symbolic shape");
  return *shape;
}

std::vector<ConstantPtr> random_inputs(const Graph& graph, uint64_t seed) {
  std::vector<ConstantPtr> inputs;
  for (const Value* parameter : graph.main.parameters) {
    inputs.push_back(
        testing::random_tensor(parameter->type.dtype, shape_of(*parameter), seed + inputs.size()));
  }
  return inputs;
}

}  // namespace gantry::end_to_end
