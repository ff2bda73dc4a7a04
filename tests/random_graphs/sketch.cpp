#include "tests/random_graphs/sketch.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/tensor/element.h"

namespace gantry::random_graphs {
namespace {

constexpr int64_t kMostElements = 4096;

}  // namespace

Node* add_op(Function& function, std::string_view op, std::shared_ptr<const Attrs> attrs,
             std::vector<Value*> inputs) {
  const std::string origin = "n" + std::to_string(function.nodes().size());
  const OpDef* declared = op_set().find(op);
  internal_check(declared != nullptr, "there is no op {}", op);
  return infer_and_add(function, *declared, std::move(attrs), std::move(inputs), {origin});
}

Sketch::Sketch(uint64_t seed, bool symbolic, bool special)
    : choices(seed, "graph"), seed_(seed), special_(special) {
  if (!symbolic) return;
  symbols_["N"] = choices.between(1, 9);
  if (choices.chance(0.5)) symbols_["M"] = choices.between(1, 9);
}

Dim Sketch::dim(bool may_be_symbol) {
  if (may_be_symbol && !symbols_.empty() && choices.chance(0.35))
    return Dim::symbol(symbols_.size() > 1 && choices.chance(0.4) ? "M" : "N");
  return choices.chance(0.2) ? 1 : choices.between(2, 9);
}

Shape Sketch::shape(int64_t rank) {
  Shape shape;
  for (int64_t i = 0; i < rank; ++i) shape.push_back(dim());
  // Of many axes not all are long.
  while (extent(element_count(shape)) > kMostElements / 4) {
    auto longest = std::ranges::max_element(shape, {}, [&](const Dim& d) { return extent(d); });
    *longest = choices.between(1, 3);
  }
  return shape;
}

Value* Sketch::parameter(const TensorType& type) {
  values_.push_back(graph_.main.add_parameter("x" + std::to_string(graph_.main.parameters.size()), type));
  return values_.back();
}

Value* Sketch::constant(const TensorType& type, double scale) {
  if (!constant_shape(type.shape)) return parameter(type);
  return graph_.main.add_constant("c", random_data(type, choices.next(), "constant", special_, scale));
}

Value* Sketch::constant_of(const TensorType& type, const std::vector<double>& values) {
  std::byte* bytes = nullptr;
  auto data = allocate_constant(type, &bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* at = bytes + i * static_cast<size_t>(byte_width(type.dtype));
    if (is_float(type.dtype))
      write_float(type.dtype, at, values[i]);
    else
      write_integer(type.dtype, at, static_cast<int64_t>(values[i]));
  }
  return graph_.main.add_constant("c", data);
}

Value* Sketch::operand(const TensorType& type, double constant_chance) {
  if (choices.chance(constant_chance)) return constant(type);
  if (choices.chance(0.5)) {
    if (Value* found = pick([&](const Value& v) { return v.type == type; })) return found;
  }
  return parameter(type);
}

Value* Sketch::pick(const std::function<bool(const Value&)>& fits) {
  std::vector<Value*> fitting;
  for (Value* value : values_) {
    if (fits(*value)) fitting.push_back(value);
  }
  if (fitting.empty()) return nullptr;
  const auto count = static_cast<int64_t>(fitting.size());
  const int64_t back =
      choices.chance(0.6) ? choices.below(std::min<int64_t>(count, 3)) : choices.below(count);
  return fitting[fitting.size() - 1 - static_cast<size_t>(back)];
}

Value* Sketch::value(DType dtype, int64_t low_rank, int64_t high_rank) {
  auto fits = [&](const Value& v) {
    return v.type.dtype == dtype && v.type.rank() >= low_rank && v.type.rank() <= high_rank;
  };
  Value* found = choices.chance(0.92) ? pick(fits) : nullptr;
  return found ? found : parameter({dtype, shape(choices.between(low_rank, high_rank))});
}

DType Sketch::float_type() {
  if (choices.chance(0.86)) return DType::kF32;
  return choices.of({DType::kF16, DType::kBF16, DType::kF64});
}
DType Sketch::number_type() {
  if (choices.chance(0.75)) return float_type();
  return choices.of({DType::kI32, DType::kI64, DType::kI64, DType::kI8, DType::kU8});
}
DType Sketch::any_type() {
  return choices.chance(0.1) ? DType::kBool : number_type();
}

Value* Sketch::add(std::string_view op, std::vector<Value*> inputs, std::shared_ptr<const Attrs> attrs) {
  Function& main = graph_.main;
  const auto constraints = main.constraints;
  Node* node = nullptr;
  try {
    node = add_op(main, op, std::move(attrs), std::move(inputs));
  } catch (const Error&) {
    main.constraints = constraints;
    throw;
  }
  for (const Value* result : node->results) {
    const int64_t count = extent(element_count(result->type.shape));
    if (count > 0 && count <= kMostElements) continue;
    main.remove_nodes([&](const Node& other) { return &other == node; });
    main.constraints = constraints;
    user_error("{} elements", count);
  }
  values_.insert(values_.end(), node->results.begin(), node->results.end());
  return node->result();
}

Value* Sketch::reshape(Value* x, Shape shape) {
  return add<ReshapeAttrs>("reshape", {x}, [&](ReshapeAttrs& a) { a.shape = std::move(shape); });
}

Value* Sketch::transpose(Value* x, std::vector<int64_t> axes) {
  return add<TransposeAttrs>("transpose", {x}, [&](TransposeAttrs& a) { a.axes = std::move(axes); });
}

std::vector<Value*> Sketch::unread() const {
  const auto counts = graph_.main.use_counts();
  std::vector<Value*> result;
  for (Value* value : values_) {
    if (value->producer != nullptr && counts.count(value) == 0) result.push_back(value);
  }
  return result;
}

std::vector<Value*> Sketch::returned() {
  std::vector<Value*> outputs;
  for (Value* value : unread()) {
    if (choices.chance(0.8)) outputs.push_back(value);  // the others are dead code
  }
  auto is_result = [](const Value& v) { return v.producer != nullptr; };
  if (outputs.empty()) outputs.push_back(values_.back());
  if (choices.chance(0.25)) {
    if (Value* read = pick(is_result)) outputs.push_back(read);
  }
  if (choices.chance(0.05)) outputs.push_back(choices.of(graph_.main.parameters));
  if (choices.chance(0.05)) {
    const std::vector<Value*> constants = graph_.main.constants();
    if (!constants.empty()) outputs.push_back(choices.of(constants));
  }
  if (choices.chance(0.03)) outputs.push_back(outputs.front());
  return outputs;
}

bool Sketch::finish(Case& result) {
  Function& main = graph_.main;
  main.outputs = returned();
  for (size_t i = 0; i < main.outputs.size(); ++i) main.output_names.push_back("y" + std::to_string(i));
  main.drop_unused_constants();
  for (const std::string& symbol : symbols_ | std::views::keys) {
    // Attributes may mention what no parameter has drawn: compiled code could not learn it.
    if (!parameter_of_symbol(main.parameters, symbol)) parameter({DType::kF32, {Dim::symbol(symbol)}});
  }
  for (const DimConstraint& constraint : main.constraints) {
    if (extent(constraint.left) != extent(constraint.right)) return false;
  }
  result.seed = seed_;
  result.graph = std::move(graph_);
  result.symbols = symbols_;
  result.special = special_;
  return true;
}

}  // namespace gantry::random_graphs
