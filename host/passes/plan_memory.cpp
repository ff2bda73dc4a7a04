#include <algorithm>
#include <set>

#include "host/ops/control.h"
#include "host/ops/op.h"
#include "host/passes/memory_bound.h"
#include "host/passes/memory_placement.h"
#include "host/passes/passes.h"
#include "host/passes/symbol_order.h"
#include "host/passes/symbolic_placement.h"

namespace gantry {
namespace {

/// Something that needs memory from node `first` to node `last`, both included.
struct Item {
  const Value* value = nullptr;  ///< or scratch of `node`
  const Node* node = nullptr;
  size_t scratch_index = 0;
  size_t first = 0, last = 0;
  size_t stretch = 0;  ///< in which it is made
  bool kept = false;   ///< a later stretch reads it
  Dim bytes;
  Dim offset;  ///< the plan
};

std::vector<Item> collect_items(const Function& function,
                                const std::function<std::vector<Dim>(const Node&)>& scratch_bytes,
                                const std::function<bool(const Node&)>& here) {
  std::set<const Value*> elsewhere;  // results that live in the buffers of outputs
  const std::set<const Value*> late = outputs_sized_late(function);
  for (Value* output : function.outputs) {
    if (late.count(output) == 0) elsewhere.insert(root_of_views(output));
  }
  std::vector<Item> items;
  std::map<const Value*, size_t> item_of;
  const auto& nodes = function.nodes();
  size_t stretch = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = *nodes[i];
    const size_t here_now = stretch;
    if (op_def(node).bound_symbols) ++stretch;  // it still reads in the one that it ends
    for (Value* input : node.inputs) {
      if (input == nullptr) continue;
      const auto found = item_of.find(root_of_views(input));
      if (found == item_of.end()) continue;
      items[found->second].last = i;
      items[found->second].kept = items[found->second].stretch != here_now;
    }
    if (op_def(node).is_view || is_control_flow(node) || (here && !here(node))) continue;
    for (const Value* result : node.results) {
      if (elsewhere.count(result) != 0) continue;
      item_of[result] = items.size();
      items.push_back({result, &node, 0, i, i, here_now, false, result->type.byte_size(), 0});
    }
    const std::vector<Dim> scratch = scratch_bytes ? scratch_bytes(node) : std::vector<Dim>{};
    for (size_t s = 0; s < scratch.size(); ++s) items.push_back({nullptr, &node, s, i, i, here_now, false, scratch[s], 0});
  }
  for (Value* output : function.outputs) {  // copied at the end
    const auto found = item_of.find(root_of_views(output));
    if (found == item_of.end()) continue;
    items[found->second].last = nodes.size();
    items[found->second].kept = items[found->second].stretch != stretch;
  }
  return items;
}

// --- constant sizes

int64_t place_constant(const std::vector<Item*>& items) {
  std::vector<Lifetime<int64_t>> lifetimes;
  for (const Item* item : items)
    lifetimes.push_back({item->first, item->last, aligned_bytes(item->bytes).value()});
  const MemoryPlacement placement = place_lifetimes(lifetimes);
  for (size_t i = 0; i < items.size(); ++i) items[i]->offset = placement.offsets[i];
  return placement.bytes;
}

// --- symbolic sizes

/// Behind those of constant sizes. Returns the end.
Dim place_symbolic(const std::vector<Item*>& items, int64_t base) {
  std::vector<Lifetime<Dim>> lifetimes;
  for (const Item* item : items) lifetimes.push_back({item->first, item->last, item->bytes});
  const SymbolicPlacement placement = gantry::place_symbolic(lifetimes);
  for (size_t i = 0; i < items.size(); ++i) items[i]->offset = placement.offsets[i] + base;
  return placement.bytes + base;
}

// --- stretches

/// All that a stretch keeps is alive at its end: nothing shares memory.
Dim place_kept(const std::vector<Item*>& items) {
  Dim end = 0;
  for (Item* item : items) {
    item->offset = end;
    end = end + aligned_bytes(item->bytes);
  }
  return end;
}

std::vector<MemoryPlan::Stretch> place_stretches(std::vector<Item>& items, const Function& function) {
  size_t count = 1;
  for (const Node* node : function.nodes()) count += op_def(*node).bound_symbols ? 1 : 0;
  struct Items {
    std::vector<Item*> constant, symbolic, kept;
  };
  std::vector<Items> by_stretch(count);
  for (Item& item : items) {
    Items& own = by_stretch[item.stretch];
    (item.kept ? own.kept : item.bytes.is_constant() ? own.constant : own.symbolic).push_back(&item);
  }
  std::vector<MemoryPlan::Stretch> stretches;
  for (const Items& own : by_stretch) {
    const int64_t constant_bytes = place_constant(own.constant);
    stretches.push_back({place_symbolic(own.symbolic, constant_bytes), place_kept(own.kept)});
  }
  return stretches;
}

}  // namespace

MemoryPlan plan_memory(const Function& function,
                       const std::function<std::vector<Dim>(const Node&)>& scratch_bytes,
                       const std::function<bool(const Node&)>& here) {
  std::vector<Item> items = collect_items(function, scratch_bytes, here);
  MemoryPlan plan;
  plan.stretches = place_stretches(items, function);
  plan.workspace_bytes = plan.stretches.front().workspace_bytes;
  for (const Item& item : items) {
    const std::optional<size_t> kept_by = item.kept ? std::optional(item.stretch) : std::nullopt;
    if (item.value != nullptr) {
      plan.slots[item.value] = {item.offset, item.bytes, kept_by};
    } else {
      plan.scratch[item.node].push_back({item.offset, item.bytes});
    }
  }
  for (const Node* node : function.nodes()) {
    if (!op_def(*node).is_view) continue;
    const auto found = plan.slots.find(root_of_views(node->result()));
    if (found != plan.slots.end()) plan.slots[node->result()] = found->second;
  }
  return plan;
}

}  // namespace gantry
