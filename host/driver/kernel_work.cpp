#include "host/driver/kernel_work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "host/graph/dim_renamer.h"

namespace gantry {
namespace {

/// A kernel's symbols are never negative: a number that may be is the difference of two.
class KernelRenamer : public DimRenamer {
 public:
  void signed_numbers(std::string_view, Dim& value) override { value = number(value); }
  void signed_numbers(std::string_view, Shape& value) override {
    for (Dim& each : value) each = number(each);
  }

 private:
  Dim number(const Dim& dim) {
    const auto low = dim.lower_bound();
    if (dim.is_constant() || (low && *low >= 0)) return rename(dim);
    const Dim above = rename(max(dim, 0)), below = rename(max(Dim(0) - dim, 0));
    return above - below;
  }
};

/// With symbols of the kernel's own. Kernels know strings by their numbers.
TensorType kernel_type(const TensorType& type, DimRenamer& renamer) {
  TensorType renamed = renamer.rename(type);
  if (renamed.dtype == DType::kString) renamed.dtype = DType::kU64;
  return renamed;
}

}  // namespace

KernelWork::KernelWork(const Node& node) {
  KernelRenamer renamer;
  for (Value* input : node.inputs) arguments_.push_back(slot_of(input, renamer));
  if (node.bodies.empty()) {
    add_step(node, arguments_, renamer);
    for (const Value* result : node.results) outputs_.push_back(slot_of_.at(result));
  } else {
    read_body(*node.bodies.front(), renamer);
  }
  originals_ = renamer.originals();
  write_key();
}

int KernelWork::add_slot(TensorType type, ConstantPtr immediate) {
  slots_.push_back({std::move(type), std::move(immediate)});
  return static_cast<int>(slots_.size()) - 1;
}

int KernelWork::slot_of(Value* value, DimRenamer& renamer) {
  if (value == nullptr) return kAbsent;
  const auto [entry, is_new] = slot_of_.try_emplace(value, kAbsent);
  if (!is_new) return entry->second;
  if (is_immediate(*value)) return entry->second = add_slot(value->type, value->constant);
  buffers_.push_back(value);
  entry->second = add_slot(kernel_type(value->type, renamer), nullptr);
  buffer_slots_.push_back(entry->second);
  return entry->second;
}

void KernelWork::read_body(const Function& body, DimRenamer& renamer) {
  for (size_t i = 0; i < body.parameters.size(); ++i) slot_of_[body.parameters[i]] = arguments_[i];
  for (const Value* constant : body.constants())
    slot_of_[constant] = add_slot(constant->type, constant->constant);
  for (const Node* inner : body.nodes()) {
    std::vector<int> inputs;
    for (const Value* input : inner->inputs) inputs.push_back(input ? slot_of_.at(input) : kAbsent);
    add_step(*inner, inputs, renamer);
  }
  for (const Value* output : body.outputs) outputs_.push_back(slot_of_.at(output));
}

void KernelWork::add_step(const Node& node, const std::vector<int>& inputs, DimRenamer& renamer) {
  auto decision = node.decision ? std::make_shared<const Decision>(*node.decision) : nullptr;
  Step step{&op_def(node), renamer.rename(*node.attrs), std::move(decision), inputs, {}, {}, 0, node.origin};
  for (const Value* input : node.inputs)
    step.input_types.push_back(input ? kernel_type(input->type, renamer) : TensorType());
  step.first_result = static_cast<int>(slots_.size());
  for (const Value* result : node.results) {
    step.result_types.push_back(kernel_type(result->type, renamer));
    slot_of_[result] = add_slot(step.result_types.back(), nullptr);
  }
  steps_.push_back(std::move(step));
}

// Every part is delimited: the texts of types and attributes have no line ends, and bytes stand behind their
// number.
void KernelWork::write_key() {
  const auto say = [this](const std::string& text) { key_ += text; };
  for (const Slot& slot : slots_) {
    say(slot.type.str());
    if (slot.immediate) {
      say(fmt::format(" = {}:", slot.immediate->size));
      key_.append(reinterpret_cast<const char*>(slot.immediate->bytes), slot.immediate->size);
    }
    say("\n");
  }
  say(fmt::format("({})\n", fmt::join(arguments_, ", ")));
  for (const Step& step : steps_) {
    say(fmt::format("{} = {}({}) {{{}}}", step.first_result, step.op->name, fmt::join(step.inputs, ", "),
                    to_string(*step.attrs)));
    if (step.decision) say(" " + to_string(*step.decision));
    for (const TensorType& type : step.input_types) say(fmt::format(" {}", type.str()));
    say(" ->");
    for (const TensorType& type : step.result_types) say(fmt::format(" {}", type.str()));
    say("\n");
  }
  say(fmt::format("return {}", fmt::join(outputs_, ", ")));
}

}  // namespace gantry
