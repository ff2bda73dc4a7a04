#include "tests/driver/graph_evaluation.h"

#include <cstring>
#include <random>

#include "host/driver/program.h"
#include "host/loops/evaluate.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/tensor/interpret.h"

namespace gantry::test {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<float> floats_of(const Bytes& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

size_t size_of(const Dim& bytes, const std::map<std::string, int64_t>& symbols) {
  return static_cast<size_t>(bytes.evaluate(symbols));
}

std::map<std::string, Dim> as_dims(const std::map<std::string, int64_t>& symbols) {
  std::map<std::string, Dim> dims;
  for (const auto& [name, value] : symbols) dims.emplace(name, Dim(value));
  return dims;
}

std::string substituted(std::string text, const std::map<std::string, int64_t>& symbols) {
  for (const auto& [name, value] : symbols) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      auto is_word = [&](size_t i) {
        return i < text.size() && (std::isalnum(text[i]) || text[i] == '_' || text[i] == '.' ||
                                   text[i] == '%' || text[i] == '@');
      };
      if ((at > 0 && is_word(at - 1)) || is_word(at + name.size())) continue;
      text.replace(at, name.size(), std::to_string(value));
    }
  }
  return text;
}

}  // namespace

Arguments random_arguments(const Graph& graph, const std::map<std::string, int64_t>& symbols) {
  std::mt19937 engine(7);
  std::uniform_int_distribution<int> values(-4, 4);
  Arguments arguments;
  for (const Value* parameter : graph.main.parameters) {
    std::vector<float> data(size_of(element_count(parameter->type.shape), symbols));
    for (float& x : data) x = static_cast<float>(values(engine));
    arguments.push_back(std::move(data));
  }
  return arguments;
}

Graph bind_symbols(const Graph& graph, const std::map<std::string, int64_t>& symbols) {
  std::map<std::string, ConstantPtr> constants;
  for (const Value* constant : graph.main.constants()) constants[constant->name] = constant->constant;
  return parse_graph(substituted(print(graph, op_set()), symbols), op_set(), constants);
}

std::vector<float> interpret_graph(const Graph& graph, const Arguments& arguments) {
  std::map<const Value*, ConstantPtr> values;
  for (size_t i = 0; i < graph.main.parameters.size(); ++i) {
    values[graph.main.parameters[i]] = make_constant(graph.main.parameters[i]->type, arguments[i].data());
  }
  for (const Value* constant : graph.main.constants()) values[constant] = constant->constant;
  for (const Node* node : graph.main.nodes()) {
    std::vector<Tensor> inputs;
    std::map<const OperationNode*, ConstantPtr> data;
    for (const Value* input : node->inputs) {
      inputs.push_back(placeholder(to_exprs(input->type.shape), input->type.dtype, "x"));
      data[inputs.back().op().get()] = values.at(input);
    }
    auto results = interpret(op_def(*node).compute(*node, inputs), data);
    internal_check(results.size() == node->results.size(), "{} cannot be interpreted", node->op->name);
    for (size_t i = 0; i < results.size(); ++i) values[node->results[i]] = results[i];
  }
  const ConstantData& output = *values.at(graph.main.outputs[0]);
  return floats_of(Bytes(output.bytes, output.bytes + output.size));
}

std::vector<float> evaluate_program(const Graph& graph, const Target& target, int opt_level,
                                    const Arguments& arguments, const std::map<std::string, int64_t>& symbols,
                                    Optimize optimize) {
  CompileOptions options;
  options.optimize = optimize;
  options.opt_level = opt_level;
  options.verify = true;
  Program program = build_program(graph, target, options);
  Function& main = program.graph.main;
  std::map<const Value*, Bytes> memory;
  auto bytes_of = [&](Value* value) -> Bytes& {
    Value* root = root_of_views(value);
    auto [entry, is_new] = memory.try_emplace(root);
    if (!is_new) return entry->second;
    entry->second.resize(size_of(root->type.byte_size(), symbols));
    if (root->is_constant()) std::memcpy(entry->second.data(), root->constant->bytes, root->constant->size);
    return entry->second;
  };
  for (size_t i = 0; i < main.parameters.size(); ++i) {
    std::memcpy(bytes_of(main.parameters[i]).data(), arguments[i].data(),
                arguments[i].size() * sizeof(float));
  }
  for (const KernelCall& call : program.calls) {
    const LoopKernel& kernel = program.kernels[call.kernel];
    std::vector<std::span<std::byte>> buffers;
    for (Value* input : call.inputs) buffers.emplace_back(bytes_of(input));
    for (Value* result : call.node->results) buffers.emplace_back(bytes_of(result));
    std::map<std::string, int64_t> dims;
    for (size_t i = 0; i < kernel.symbols.size(); ++i)
      dims[kernel.symbols[i]] = call.sizes.dims[i].evaluate(symbols);
    evaluate(kernel, buffers, dims);
  }
  return floats_of(bytes_of(main.outputs[0]));
}

}  // namespace gantry::test
