// What a node gives its kernel to do: the whole of what decides the kernel's code, and nothing else.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "host/graph/graph.h"
#include "host/ops/op.h"

namespace gantry {

class DimRenamer;  // host/graph/dim_renamer.h

/// Read from a node, before anything is built of it. Values are numbers, "slots": those that the node reads,
/// each once, then constants of its body, then the results of the steps. Each distinct symbolic dimension of
/// the node's types and attributes is an opaque symbol ("dim.0", …), so that indices stay simple and nodes
/// that differ only in such dimensions do the same work. What builds the kernel takes symbols for >= 0: a
/// number that may be negative (AttrVisitor::signed_numbers) is one symbol less another, of which one is 0.
class KernelWork {
 public:
  explicit KernelWork(const Node& node);

  static constexpr int kAbsent = -1;  ///< the slot of an optional input that is not there
  struct Slot {
    TensorType type;
    ConstantPtr immediate;  ///< null: a buffer or the result of a step
  };
  /// One op. Its expression is made from this alone.
  struct Step {
    const OpDef* op = nullptr;
    std::shared_ptr<const Attrs> attrs;
    std::shared_ptr<const Decision> decision;  ///< null: there was nothing to decide
    std::vector<int> inputs;
    std::vector<TensorType> input_types;  ///< as the op sees them; of absent ones nothing
    std::vector<TensorType> result_types;
    int first_result = 0;             ///< slot
    std::vector<std::string> origin;  ///< for dumps and messages; no part of the key
  };

  /// Equal for two nodes if and only if their works are, but for origins.
  const std::string& key() const { return key_; }

  const std::vector<Slot>& slots() const { return slots_; }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<int>& outputs() const { return outputs_; }
  /// Those that are the kernel's input buffers, in their order.
  const std::vector<int>& buffer_slots() const { return buffer_slots_; }

  /// What this node has for the kernel: the values of buffer_slots(), and what stands for its symbols.
  const std::vector<Value*>& buffers() const { return buffers_; }
  Dim bound(const Dim& dim) const { return dim.substitute(originals_); }

 private:
  int slot_of(Value* value, DimRenamer& renamer);
  int add_slot(TensorType type, ConstantPtr immediate);
  void add_step(const Node& node, const std::vector<int>& inputs, DimRenamer& renamer);
  void read_body(const Function& body, DimRenamer& renamer);
  void write_key();

  std::vector<Slot> slots_;
  std::vector<Step> steps_;
  std::vector<int> arguments_;  ///< the slots of the node's inputs
  std::vector<int> outputs_, buffer_slots_;
  std::vector<Value*> buffers_;
  std::map<const Value*, int> slot_of_;
  std::map<std::string, Dim> originals_;  ///< by symbol
  std::string key_;
};

}  // namespace gantry
