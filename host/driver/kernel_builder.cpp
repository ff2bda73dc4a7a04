#include "host/driver/kernel_builder.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "host/loops/launch.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/target/schedule_rules.h"
#include "host/target/unit_axes.h"

namespace gantry {
namespace {

// Gives each distinct symbolic dimension a symbol of the kernel's own.
class DimRenamer {
 public:
  Dim rename(const Dim& dim) {
    if (dim.is_constant()) return dim;
    auto [entry, is_new] = symbols_.try_emplace(dim.str(), Dim());
    if (is_new) {
      entry->second = Dim::symbol("dim." + std::to_string(originals_.size()));
      originals_.emplace(entry->second.str(), dim);
    }
    return entry->second;
  }
  Shape rename(const Shape& shape) {
    Shape renamed;
    for (const Dim& dim : shape) renamed.push_back(rename(dim));
    return renamed;
  }
  TensorType rename(const TensorType& type) { return {type.dtype, rename(type.shape)}; }
  /// What the kernel's symbol stands for in the graph.
  Dim original(const std::string& symbol) const {
    auto found = originals_.find(symbol);
    return found != originals_.end() ? found->second : Dim::symbol(symbol);
  }

 private:
  std::map<std::string, Dim> symbols_;
  std::map<std::string, Dim> originals_;
};

// Renames the dimensions inside attributes.
class AttrRenamer : public PartialAttrVisitor {
 public:
  explicit AttrRenamer(DimRenamer& renamer) : renamer_(renamer) {}
  using PartialAttrVisitor::operator();
  void operator()(std::string_view, Dim& value) override { value = renamer_.rename(value); }
  void operator()(std::string_view, Shape& value) override { value = renamer_.rename(value); }

 private:
  DimRenamer& renamer_;
};

double scalar_value(const ConstantData& constant) {
  switch (constant.type.dtype) {
    case DType::kF32:
      return *constant.as<float>();
    case DType::kF64:
      return *constant.as<double>();
    case DType::kI8:
      return *constant.as<int8_t>();
    case DType::kI16:
      return *constant.as<int16_t>();
    case DType::kI32:
      return *constant.as<int32_t>();
    case DType::kU8:
    case DType::kBool:
      return *constant.as<uint8_t>();
    case DType::kU16:
      return *constant.as<uint16_t>();
    case DType::kU32:
      return *constant.as<uint32_t>();
    default:
      internal_error("a scalar constant of type {} cannot be an immediate", name_of(constant.type.dtype));
  }
}

// A one-element constant as a tensor expression that is inlined as an immediate.
Tensor immediate(const Value& value) {
  const ConstantData& constant = *value.constant;
  DType dtype = constant.type.dtype;
  Expr imm;
  if (is_float(dtype)) {
    imm = float_imm(dtype, scalar_value(constant));
  } else if (dtype == DType::kI64) {
    imm = int_imm(dtype, *constant.as<int64_t>());
  } else {
    imm = int_imm(dtype, static_cast<int64_t>(scalar_value(constant)));
  }
  return compute(
      to_exprs(constant.type.shape), [&](const std::vector<Expr>&) { return imm; }, "immediate");
}

// Tensor expressions of one node: of an op, or of a fused op's body.
class ExpressionBuilder {
 public:
  explicit ExpressionBuilder(DimRenamer& renamer) : renamer_(renamer) {}

  std::vector<Tensor> build(const Node& node, const std::vector<Tensor>& inputs) {
    if (node.bodies.empty()) return compute_node(node, inputs);
    const Function& body = *node.bodies.front();
    std::map<const Value*, Tensor> tensors;
    for (size_t i = 0; i < body.parameters.size(); ++i) tensors[body.parameters[i]] = inputs[i];
    for (Value* constant : body.constants()) tensors[constant] = immediate(*constant);
    for (const Node* inner : body.nodes()) {
      std::vector<Tensor> arguments;
      for (Value* input : inner->inputs) arguments.push_back(input ? tensors.at(input) : Tensor());
      std::vector<Tensor> results = compute_node(*inner, arguments);
      for (size_t i = 0; i < results.size(); ++i) tensors[inner->results[i]] = results[i];
    }
    std::vector<Tensor> outputs;
    for (Value* output : body.outputs) outputs.push_back(tensors.at(output));
    return outputs;
  }

 private:
  // The op sees a copy of the node whose types and attributes have renamed dimensions.
  std::vector<Tensor> compute_node(const Node& node, const std::vector<Tensor>& inputs) {
    internal_check(op_def(node).compute != nullptr, "op {} has no tensor expression", node.op->name);
    std::vector<std::unique_ptr<Value>> values;
    auto copy_value = [&](Value* value) -> Value* {
      if (!value) return nullptr;
      auto copy = std::make_unique<Value>(*value);
      copy->type = renamer_.rename(value->type);
      values.push_back(std::move(copy));
      return values.back().get();
    };
    Node renamed;
    renamed.op = node.op;
    renamed.origin = node.origin;
    auto attrs = node.attrs->clone();
    AttrRenamer attr_renamer(renamer_);
    attrs->fields(attr_renamer);
    renamed.attrs = attrs;
    for (Value* input : node.inputs) renamed.inputs.push_back(copy_value(input));
    for (Value* result : node.results) renamed.results.push_back(copy_value(result));
    std::vector<Tensor> results = op_def(node).compute(renamed, inputs);
    name_source(results, inputs, source_of(node));
    return results;
  }

  static std::string source_of(const Node& node) {
    if (node.origin.empty()) return node.op->name;
    return fmt::format("{} of {}", node.op->name, fmt::join(node.origin, ", "));
  }

  // Everything between the inputs and the results comes from one node.
  static void name_source(const std::vector<Tensor>& results, const std::vector<Tensor>& inputs,
                          const std::string& source) {
    for (const Operation& op : topological_order(results)) {
      const bool given = std::ranges::any_of(inputs, [&](const Tensor& t) { return t && t.op() == op; });
      const bool is_input = given || op->kind == OperationNode::Kind::kPlaceholder;
      if (!is_input && op->source.empty()) op->source = source;
    }
  }

  DimRenamer& renamer_;
};

// Sizes of buffers and grids are built from shapes, so they hold only what dimensions can express.
Dim to_dim(const Expr& e, const DimRenamer& renamer) {
  if (auto* imm = e.as<IntImmNode>()) return Dim(imm->value);
  if (auto* var = e.as<VarNode>(); var && var->is_symbol) return renamer.original(var->name);
  if (auto* binary = e.as<BinaryNode>()) {
    Dim a = to_dim(binary->a, renamer), b = to_dim(binary->b, renamer);
    switch (binary->op) {
      case BinaryOp::kAdd:
        return a + b;
      case BinaryOp::kSub:
        return a - b;
      case BinaryOp::kMul:
        return a * b;
      case BinaryOp::kDiv:  // sizes are not negative
      case BinaryOp::kFloorDiv:
        return floordiv(a, b);
      case BinaryOp::kMod:
        return mod(a, b);
      case BinaryOp::kMin:
        return min(a, b);
      case BinaryOp::kMax:
        return max(a, b);
      default:
        break;
    }
  }
  internal_error("the size of a buffer or grid is not a dimension: {}", to_string(e));
}

const Function* body_of(const Node& node) {
  return node.bodies.empty() ? nullptr : node.bodies.front().get();
}

// What a kernel is for are its sums rather than its arithmetic, and that rather than index maps.
int weight_of(FusionClass fusion) {
  switch (fusion) {
    case FusionClass::kInjective:
      return 0;
    case FusionClass::kElementwise:
    case FusionClass::kBroadcast:
      return 1;
    case FusionClass::kReduction:
    case FusionClass::kOutElementwiseFusable:
    case FusionClass::kOpaque:
      return 2;
  }
  internal_error("unknown fusion class");
}

// What a node must read of an input: all of it, or as much as it picks.
Dim bytes_read(const Node& node, size_t input) {
  const Dim all = node.inputs[input]->type.byte_size();
  const Function* body = body_of(node);
  if (!body) {
    if (!op_def(node).reads_part || input != 0) return all;
    return min(all, element_count(node.result()->type.shape) * byte_width(node.inputs[0]->type.dtype));
  }
  Dim picked = 0;
  for (const Node* inner : body->nodes()) {
    for (size_t i = 0; i < inner->inputs.size(); ++i) {
      if (inner->inputs[i] == body->parameters[input]) picked = picked + bytes_read(*inner, i);
    }
  }
  return min(all, picked);
}

LoopKernel scheduled(const KernelTensors& kernel, const Target& target, const std::string& name,
                     const LoopObserver& observe = {}) {
  return run_loop_passes(lower_schedule(make_schedule(kernel.outputs, target), kernel.inputs, name), observe);
}

// A GPU's blocks have hard limits, and a slow kernel serves a user better than none.
LoopKernel lower(const KernelTensors& kernel, const Target& target, const std::string& name,
                 const LoopObserver& observe) {
  if (!target.for_gpu()) return scheduled(without_unit_axes(kernel), target, name, observe);
  try {
    LoopKernel taken = scheduled(kernel, target, name);
    // A listener hears only of the kernel that is taken.
    return observe ? scheduled(kernel, target, name, observe) : taken;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInternal) throw;
    spdlog::warn("a slow kernel without tiles, because its default schedule does not fit the GPU: {}",
                 error.what());
    return run_loop_passes(lower_schedule(make_plain_gpu_schedule(kernel.outputs), kernel.inputs, name),
                           observe);
  }
}

}  // namespace

BuiltKernel build_kernel(const Node& node, const Target& target, const std::string& name,
                         const LoopObserver& observe, const CompileOptions& options) {
  BuiltKernel built;
  DimRenamer renamer;
  std::map<const Value*, Tensor> placeholders;
  std::vector<Tensor> arguments, kernel_inputs;
  for (Value* input : node.inputs) {
    if (!input) {
      arguments.emplace_back();
      continue;
    }
    Tensor& tensor = placeholders[input];
    if (!tensor) {
      if (is_immediate(*input)) {
        tensor = immediate(*input);
      } else {
        TensorType type = renamer.rename(input->type);
        tensor = placeholder(to_exprs(type.shape), type.dtype, "in" + std::to_string(built.inputs.size()));
        built.inputs.push_back(input);
        kernel_inputs.push_back(tensor);
      }
    }
    arguments.push_back(tensor);
  }
  std::vector<Tensor> outputs = ExpressionBuilder(renamer).build(node, arguments);
  if (const auto own = options.own_kernel ? options.own_kernel(node, outputs) : std::nullopt) {
    built.kernel = run_loop_passes(lower_schedule(*own->schedule, own->inputs, name), observe);
  } else {
    built.kernel = lower({outputs, kernel_inputs}, target, name, observe);
  }
  for (const std::string& symbol : built.kernel.symbols) built.dims.push_back(renamer.original(symbol));
  for (const Buffer& buffer : built.kernel.scratch) {
    built.scratch_bytes.push_back(to_dim(buffer->element_count, renamer) * byte_width(buffer->dtype));
  }
  if (target.device == DeviceKind::kCuda) {
    const LaunchPlan plan = plan_launches(built.kernel);
    for (const LaunchShape& launch : plan.launches) {
      for (const Expr& blocks : launch.grid) built.grids.push_back(to_dim(blocks, renamer));
    }
    for (const Expr& iterations : plan.loops) built.loops.push_back(to_dim(iterations, renamer));
  }
  return built;
}

std::string display_name(const Node& node) {
  const Function* body = body_of(node);
  if (!body) {
    const std::string algorithm = op_def(node).algorithm ? op_def(node).algorithm(node) : std::string();
    return algorithm.empty() ? node.op->name : fmt::format("{}[{}]", node.op->name, algorithm);
  }
  std::string name;
  for (const Node* inner : body->nodes()) name += (name.empty() ? "" : "+") + display_name(*inner);
  return name;
}

std::string main_op(const Node& node) {
  const Function* body = body_of(node);
  if (!body) return node.op->name;
  // Of those that weigh as much the first: others follow it.
  const Node* main = body->nodes().front();
  for (const Node* inner : body->nodes()) {
    if (weight_of(op_def(*inner).fusion) > weight_of(op_def(*main).fusion)) main = inner;
  }
  return main->op->name;
}

Dim flops_of(const Node& node) {
  if (const Function* body = body_of(node)) {
    Dim total = 0;
    for (const Node* inner : body->nodes()) total = total + flops_of(*inner);
    return total;
  }
  if (op_def(node).flops) return op_def(node).flops(node);
  return element_count(node.result()->type.shape);
}

Dim bytes_of(const Node& node) {
  Dim total = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i]) total = total + bytes_read(node, i);
  }
  for (const Value* result : node.results) total = total + result->type.byte_size();
  return total;
}

}  // namespace gantry
