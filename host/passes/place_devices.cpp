#include "host/passes/place_devices.h"

#include <algorithm>
#include <map>
#include <set>

#include "host/ops/custom.h"
#include "host/ops/device_copy.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

/// A kernel on a CPU costs less than the copies around one on the GPU, up to about as many elements.
constexpr int64_t kSmallNodeElements = 16 << 10;

/// Of a kernel on a GPU, which takes 544 of 8 bytes: the address of each input and result, and each symbol of their
/// shapes. The others are for what a node does not show: memory between its launches, symbols of attributes.
constexpr size_t kMostParameters = 480;

bool has_few_parameters(const Node& node) {
  size_t buffers = 0;
  std::set<std::string> symbols;
  const auto count = [&](const Value* value) {
    if (value == nullptr) return;
    ++buffers;
    for (const Dim& dim : value->type.shape) {
      for (const std::string& symbol : dim.symbols()) symbols.insert(symbol);
    }
  };
  for (const Value* input : node.inputs) count(input);
  for (const Value* result : node.results) count(result);
  return buffers + symbols.size() <= kMostParameters;
}

bool operations_run_on_gpu(const std::vector<Tensor>& tensors) {
  for (const Operation& op : topological_order(tensors)) {
    if (op->kind == OperationNode::Kind::kExtern && !op->extern_gpu_body) return false;
  }
  return true;
}

/// Every tensor expression of the node (of a fused node: of its body's nodes).
bool operations_run_on_gpu(const Node& node) {
  if (!node.bodies.empty()) {
    const auto& inner = node.bodies.front()->nodes();
    return std::all_of(inner.begin(), inner.end(), [](const Node* n) { return operations_run_on_gpu(*n); });
  }
  if (!op_def(node).compute) return calls_gpu_kernel(node);
  const auto is_strings = [](const Value* v) { return v != nullptr && v->type.dtype == DType::kString; };
  if (std::ranges::any_of(node.inputs, is_strings) || std::ranges::any_of(node.results, is_strings)) return false;
  std::vector<Tensor> inputs;
  for (const Value* input : node.inputs) {
    inputs.push_back(input ? placeholder(to_exprs(input->type.shape), input->type.dtype, input->name)
                           : Tensor());
  }
  return operations_run_on_gpu(op_def(node).compute(node, inputs));
}

bool is_small(const Node& node) {
  auto small = [](const Value* value) {
    if (value == nullptr) return true;
    const auto count = element_count(value->type.shape).constant();
    return count && *count <= kSmallNodeElements;
  };
  auto cheap = [&](const Node& inner) {
    const auto flops = op_def(inner).flops ? op_def(inner).flops(inner).constant() : std::optional<int64_t>(0);
    return flops && *flops <= kSmallNodeElements &&
           std::all_of(inner.inputs.begin(), inner.inputs.end(), small) &&
           std::all_of(inner.results.begin(), inner.results.end(), small);
  };
  if (node.bodies.empty()) return cheap(node);
  const auto& inner = node.bodies.front()->nodes();
  return std::all_of(inner.begin(), inner.end(), [&](const Node* n) { return cheap(*n); });
}

/// Decides for every kernel node; copies come later.
class Placer {
 public:
  explicit Placer(Function& function) : function_(function) {}

  void run() {
    for (Node* node : function_.nodes()) {
      if (!op_def(*node).is_view) node->placement = runs_on_gpu(*node) ? Placement::kGpu : Placement::kCpu;
    }
    keep_small_runs_on_cpu();
    for (Node* node : function_.nodes()) {
      if (!op_def(*node).is_view) continue;
      const Value* root = root_of_views(node->inputs[0]);
      node->placement = root->kind == Value::Kind::kResult ? root->producer->placement : Placement::kDefault;
    }
  }

 private:
  static bool is_on_cpu(Value* value, const std::set<const Node*>& moved) {
    const Value* root = root_of_views(value);
    return root->kind == Value::Kind::kResult &&
           (root->producer->placement == Placement::kCpu || moved.count(root->producer) != 0);
  }

  // Small nodes whose inputs come from the CPU, and whose results only it reads. Taking a node out may strand
  // others, so the set shrinks until it holds.
  void keep_small_runs_on_cpu() {
    std::set<const Node*> excluded;
    for (;;) {
      std::set<const Node*> moved = fed_by_cpu(excluded);
      const size_t before = excluded.size();
      for (const Node* node : moved) {
        if (!read_by_cpu_only(*node, moved)) excluded.insert(node);
      }
      if (excluded.size() != before) continue;
      for (Node* node : function_.nodes()) {
        if (moved.count(node) != 0) node->placement = Placement::kCpu;
      }
      return;
    }
  }

  std::set<const Node*> fed_by_cpu(const std::set<const Node*>& excluded) const {
    std::set<const Node*> moved;
    for (const Node* node : function_.nodes()) {
      if (op_def(*node).is_view || node->placement == Placement::kCpu || excluded.count(node) != 0) continue;
      bool any = false, all = true;
      for (Value* input : node->inputs) {
        if (input == nullptr || root_of_views(input)->kind != Value::Kind::kResult) continue;
        const bool on_cpu = is_on_cpu(input, moved);
        any = any || on_cpu;
        all = all && on_cpu;
      }
      if (any && all && is_small(*node)) moved.insert(node);
    }
    return moved;
  }

  bool read_by_cpu_only(const Node& node, const std::set<const Node*>& moved) const {
    for (const Node* user : function_.nodes()) {
      if (op_def(*user).is_view || user->placement == Placement::kCpu || moved.count(user) != 0) continue;
      for (Value* input : user->inputs) {
        if (input != nullptr && root_of_views(input)->kind == Value::Kind::kResult &&
            root_of_views(input)->producer == &node)
          return false;
      }
    }
    return true;
  }

  Function& function_;
};

/// Gives every node its inputs in the memory of its own device.
class CopyInserter {
 public:
  explicit CopyInserter(Function& function) : function_(function) {}

  void run() {
    const std::vector<Node*> nodes = function_.nodes();
    for (Node* node : nodes) {
      if (op_def(*node).is_view) continue;
      for (size_t i = 0; i < node->inputs.size(); ++i) {
        Value* input = node->inputs[i];
        if (input != nullptr) function_.set_input(*node, i, value_on(input, node->placement, node));
      }
    }
  }

 private:
  /// Parameters and constants are at hand on both devices: what the GPU needs of them, the runtime uploads.
  Value* value_on(Value* value, Placement placement, const Node* before) {
    if (value->kind != Value::Kind::kResult || value->producer->placement == placement ||
        value->producer->placement == Placement::kDefault)
      return value;
    const auto key = std::pair(value, placement);
    if (const auto known = copies_.find(key); known != copies_.end()) return known->second;
    const Node& producer = *value->producer;
    Node* copy = op_def(producer).is_view ? copy_of_view(producer, placement, before)
                                      : device_copy(value, placement, before);
    return copies_[key] = copy->result();
  }

  Node* device_copy(Value* value, Placement placement, const Node* before) {
    auto attrs = std::make_shared<DeviceCopyAttrs>();
    using Destination = DeviceCopyAttrs::Destination;
    attrs->destination = placement == Placement::kGpu ? Destination::kGpu : Destination::kCpu;
    return Builder(function_, value->producer->origin, before).node(op::device_copy, {value}, attrs);
  }

  /// The same view of the copy, so that a value crosses once whatever its shape.
  Node* copy_of_view(const Node& view, Placement placement, const Node* before) {
    std::vector<Value*> inputs = view.inputs;
    inputs[0] = value_on(inputs[0], placement, before);
    std::vector<TensorType> types;
    for (const Value* result : view.results) types.push_back(result->type);
    Node* copy = function_.add_node(view.op, view.attrs, inputs, std::move(types), view.origin, before);
    copy->placement = placement;
    return copy;
  }

  Function& function_;
  std::map<std::pair<const Value*, Placement>, Value*> copies_;
};

}  // namespace

bool runs_on_gpu(const Node& node) {
  return has_few_parameters(node) && operations_run_on_gpu(node);
}

void forget_devices(Graph& graph) {
  Function& main = graph.main;
  for (Node* node : main.nodes()) {
    node->placement = Placement::kDefault;
    if (is_device_copy(*node)) main.replace_uses(node->result(), node->inputs[0]);
  }
  main.remove_nodes(is_device_copy);
}

void place_devices(Graph& graph, PassContext&) {
  const auto& nodes = graph.main.nodes();
  const bool placed = std::ranges::any_of(nodes, [](const Node* n) { return n->placement != Placement::kDefault; });
  if (placed) return;
  Placer(graph.main).run();
  CopyInserter(graph.main).run();
  remove_dead_nodes(graph.main);  // views of which only copies are read
}

extern const Pass place_devices_pass{
    .name = "place_devices",
    .purpose = "with a GPU: says what runs there and what on the CPU",
    .after = {"fuse_ops"},
    .when = for_gpus,
    .run = place_devices,
    .works_on_groups = true,
};

}  // namespace gantry
