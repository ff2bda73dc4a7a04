#include "host/graph/graph.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>

#include "host/support/error.h"

namespace gantry {
namespace {

// Vector loads of packed weights want it.
constexpr size_t kConstantAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

size_t constant_bytes(const TensorType& type) {
  const auto bytes = type.byte_size().constant();
  internal_check(bytes && *bytes >= 0, "a constant cannot have the type {}", type.str());
  return static_cast<size_t>(*bytes);
}

}  // namespace

std::shared_ptr<ConstantData> allocate_constant(const TensorType& type, std::byte** writable) {
  const size_t size = constant_bytes(type);
  // Large ones in huge pages, which Linux hands out several times faster.
  const size_t alignment = size >= 4 * kHugePage ? kHugePage : kConstantAlignment;
  const size_t padded = (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment;
  void* storage = std::aligned_alloc(alignment, padded);
  if (alignment == kHugePage && storage != nullptr) ::madvise(storage, padded, MADV_HUGEPAGE);
  if (storage == nullptr) user_error("there is no memory for a constant of {} bytes: free some memory", size);
  auto data = std::make_shared<ConstantData>();
  data->type = type;
  data->bytes = static_cast<const std::byte*>(storage);
  data->size = size;
  data->owner = std::shared_ptr<const void>(storage, [](const void* p) { std::free(const_cast<void*>(p)); });
  if (writable != nullptr) *writable = static_cast<std::byte*>(storage);
  return data;
}

ConstantPtr make_constant(const TensorType& type, const void* data) {
  std::byte* storage = nullptr;
  auto constant = allocate_constant(type, &storage);
  if (constant->size > 0) std::memcpy(storage, data, constant->size);
  return constant;
}

std::string Function::unique_name(std::string hint) {
  if (hint.empty()) {  // values without a name of their own are numbered
    int& next = name_counts_[""];
    do {
      hint = std::to_string(next++);
    } while (name_counts_.count(hint) != 0);
    name_counts_[hint] = 1;
    return hint;
  }
  auto [found, fresh] = name_counts_.try_emplace(hint, 1);
  if (fresh) return hint;
  std::string candidate;
  do {
    candidate = fmt::format("{}_{}", hint, found->second++);
  } while (name_counts_.count(candidate) != 0);
  name_counts_[candidate] = 1;
  return candidate;
}

void Function::rename(Value* value, std::string name_hint) {
  name_counts_.erase(value->name);
  value->name = unique_name(std::move(name_hint));
}

Value* Function::add_parameter(std::string name_hint, TensorType type) {
  auto value = std::make_unique<Value>();
  value->kind = Value::Kind::kParameter;
  value->name = unique_name(std::move(name_hint));
  value->type = std::move(type);
  parameters.push_back(value.get());
  values_.push_back(std::move(value));
  return parameters.back();
}

Value* Function::add_constant(std::string name_hint, ConstantPtr data) {
  auto value = std::make_unique<Value>();
  value->kind = Value::Kind::kConstant;
  value->name = unique_name(name_hint.empty() ? "c" : std::move(name_hint));
  value->type = data->type;
  value->constant = std::move(data);
  values_.push_back(std::move(value));
  return values_.back().get();
}

Node* Function::add_node(const OpBase* op, std::shared_ptr<const Attrs> attrs, std::vector<Value*> inputs,
                         std::vector<TensorType> result_types, std::vector<std::string> origin,
                         const Node* before, std::string name_hint) {
  auto node = std::make_unique<Node>();
  node->op = op;
  node->attrs = attrs ? std::move(attrs) : op->handle->make_attrs();
  internal_check(op->handle->takes(*node->attrs), "a node of op {} was given attributes of another op", op->name);
  node->inputs = std::move(inputs);
  node->origin = std::move(origin);
  for (size_t i = 0; i < result_types.size(); ++i) {
    auto value = std::make_unique<Value>();
    value->name = unique_name(name_hint);
    value->type = std::move(result_types[i]);
    value->producer = node.get();
    value->result_index = static_cast<int>(i);
    node->results.push_back(value.get());
    values_.push_back(std::move(value));
  }
  const auto place = before == nullptr ? order_.end() : std::find(order_.begin(), order_.end(), before);
  internal_check(before == nullptr || place != order_.end(),
                 "a node is to stand before one of another function");
  Node* result = node.get();
  for (Value* input : result->inputs) begin_use(input, result);
  order_.insert(place, result);
  nodes_.push_back(std::move(node));
  return result;
}

void Function::begin_use(Value* value, Node* user) {
  if (value == nullptr) return;
  if (std::find(value->users.begin(), value->users.end(), user) == value->users.end())
    value->users.push_back(user);
}

void Function::end_use(Value* value, Node* user) {
  if (value != nullptr) std::erase(value->users, user);
}

void Function::replace_uses(Value* from, Value* to) {
  if (from == to) return;
  const std::vector<Node*> users = std::move(from->users);
  from->users.clear();
  for (Node* node : users) {
    std::replace(node->inputs.begin(), node->inputs.end(), from, to);
    begin_use(to, node);
  }
  std::replace(outputs.begin(), outputs.end(), from, to);
}

void Function::set_input(Node& node, size_t index, Value* value) {
  Value* before = node.inputs.at(index);
  node.inputs[index] = value;
  if (std::find(node.inputs.begin(), node.inputs.end(), before) == node.inputs.end()) end_use(before, &node);
  begin_use(value, &node);
}

bool Function::is_output(const Value* value) const {
  return std::find(outputs.begin(), outputs.end(), value) != outputs.end();
}

Node* Function::only_user(const Value* value) const {
  return value->users.size() == 1 && !is_output(value) ? value->users.front() : nullptr;
}

std::map<const Value*, int> Function::use_counts() const {
  std::map<const Value*, int> counts;
  for (const Node* node : order_) {
    for (const Value* input : node->inputs) {
      if (input != nullptr) ++counts[input];
    }
  }
  for (const Value* output : outputs) ++counts[output];
  return counts;
}

std::map<const Value*, std::vector<Node*>> Function::users() const {
  std::map<const Value*, std::vector<Node*>> users;
  for (Node* node : order_) {
    for (const Value* input : node->inputs) {
      if (input == nullptr) continue;
      auto& list = users[input];
      if (list.empty() || list.back() != node) list.push_back(node);
    }
  }
  return users;
}

void Function::remove_nodes(const std::function<bool(const Node&)>& dead) {
  std::set<const Node*> gone;
  for (const Node* node : order_) {
    if (dead(*node)) gone.insert(node);
  }
  if (gone.empty()) return;
  std::erase_if(order_, [&](const Node* node) { return gone.count(node) != 0; });
  const auto is_gone = [&](const Node* node) { return gone.count(node) != 0; };
  for (const Node* node : gone) {
    for (const Value* result : node->results) {
      internal_check(std::ranges::all_of(result->users, is_gone) && !is_output(result),
                     "the value %{} is removed but still used", result->name);
    }
  }
  for (const auto& value : values_) std::erase_if(value->users, is_gone);
  std::erase_if(values_, [&](const auto& value) { return gone.count(value->producer) != 0; });
  std::erase_if(nodes_, [&](const auto& node) { return gone.count(node.get()) != 0; });
}

void Function::drop_unused_constants() {
  std::erase_if(values_, [&](const auto& value) {
    return value->is_constant() && value->users.empty() && !is_output(value.get());
  });
}

std::vector<Value*> Function::constants() const {
  std::vector<Value*> result;
  for (const auto& value : values_) {
    if (value->is_constant()) result.push_back(value.get());
  }
  return result;
}

std::map<std::string, DimRange> Function::ranges() const {
  std::map<std::string, DimRange> ranges;
  for (const Value* parameter : parameters) {
    for (const Dim& dim : parameter->type.shape) {
      for (const auto& [symbol, range] : dim.symbol_ranges()) {
        if (!range.unlimited()) ranges.emplace(symbol, range);
      }
    }
  }
  return ranges;
}

Function Function::clone() const {
  Function copy(name);
  copy.output_names = output_names;
  copy.constraints = constraints;
  copy.name_counts_ = name_counts_;
  std::map<const Value*, Value*> new_value{{nullptr, nullptr}};
  for (const auto& value : values_) {
    copy.values_.push_back(std::make_unique<Value>(*value));
    copy.values_.back()->users.clear();
    new_value[value.get()] = copy.values_.back().get();
  }
  auto mapped = [&](const std::vector<Value*>& list) {
    std::vector<Value*> result;
    for (const Value* value : list) result.push_back(new_value.at(value));
    return result;
  };
  copy.parameters = mapped(parameters);
  copy.outputs = mapped(outputs);
  for (const Node* node : order_) {
    auto twin = std::make_unique<Node>();
    twin->op = node->op;
    twin->attrs = node->attrs;
    twin->origin = node->origin;
    twin->placement = node->placement;
    twin->decision = node->decision;
    twin->inputs = mapped(node->inputs);
    twin->results = mapped(node->results);
    for (Value* result : twin->results) result->producer = twin.get();
    for (const auto& body : node->bodies) twin->bodies.push_back(std::make_unique<Function>(body->clone()));
    for (Value* input : twin->inputs) begin_use(input, twin.get());
    copy.order_.push_back(twin.get());
    copy.nodes_.push_back(std::move(twin));
  }
  return copy;
}

Graph clone_graph(const Graph& graph) {
  return Graph{graph.model_name, graph.main.clone(), graph.passes};
}

}  // namespace gantry
