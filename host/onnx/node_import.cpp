#include "host/onnx/node_import.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "host/onnx/constant_numbers.h"
#include "host/onnx/importer.h"
#include "host/onnx/malformed.h"

namespace gantry {

using onnx::AttributeProto;

NodeImport::NodeImport(Importer& importer, const onnx::NodeProto& proto, std::string name)
    : importer_(importer), proto_(proto), name_(std::move(name)) {}

const std::string& NodeImport::op_type() const {
  return proto_.op_type();
}
int64_t NodeImport::opset() const {
  return importer_.opset();
}

// --- inputs

size_t NodeImport::input_count() const {
  return static_cast<size_t>(proto_.input_size());
}
bool NodeImport::has(size_t i) const {
  return i < input_count() && !proto_.input(static_cast<int>(i)).empty();
}

Value* NodeImport::input(size_t i) {
  if (!has(i)) fail("its input {} is missing", i);
  const std::string& name = proto_.input(static_cast<int>(i));
  Binding& binding = importer_.lookup(name, name_);
  expect_tensor(binding);
  return importer_.materialise(binding, name);
}

void NodeImport::expect_tensor(const Binding& binding) const {
  if (binding.has_value != nullptr) unsupported(UnsupportedKind::kValueKind, "optional that may have no value");
  if (binding.sequence || binding.late) unsupported(UnsupportedKind::kValueKind, "sequence");
  if (binding.absent) unsupported(UnsupportedKind::kValueKind, "optional without a value");
}

std::vector<Value*> NodeImport::inputs() {
  std::vector<Value*> all;
  for (size_t i = 0; i < input_count(); ++i) all.push_back(input(i));
  return all;
}

TensorType NodeImport::type(size_t i) {
  if (!has(i)) fail("its input {} is missing", i);
  return type_of(importer_.lookup(proto_.input(static_cast<int>(i)), name_));
}

TensorType NodeImport::type_of(const Binding& binding) {
  expect_tensor(binding);
  if (binding.value) return binding.value->type;
  if (binding.constant) return binding.constant->type;
  if (binding.contents) return binding.contents->type();
  return data_of(binding)->type;
}

ConstantPtr NodeImport::constant(size_t i) {
  if (!has(i)) return nullptr;
  Binding& binding = importer_.lookup(proto_.input(static_cast<int>(i)), name_);
  if (binding.constant) return binding.constant;
  if (binding.value && binding.value->is_constant()) return binding.value->constant;
  return binding.contents ? constant_of(*binding.contents) : nullptr;
}

std::optional<Contents> NodeImport::contents(size_t i) {
  std::optional<Contents> known = elements(i);
  return known && known->shape.size() <= 1 ? std::move(known) : std::nullopt;
}

std::optional<Contents> NodeImport::elements(size_t i) {
  if (!has(i)) return std::nullopt;
  Binding& binding = importer_.lookup(proto_.input(static_cast<int>(i)), name_);
  if (binding.contents) return binding.contents;
  ConstantPtr data = constant(i);
  if (data) binding.contents = contents_of(*data);
  // Of nothing all is known.
  const bool is_empty =
      binding.value && binding.value->type.shape == Shape{0} &&
      (binding.value->type.dtype == DType::kI64 || binding.value->type.dtype == DType::kI32);
  if (!binding.contents && is_empty) binding.contents = Contents::vector({}, binding.value->type.dtype);
  return binding.contents;
}

Shape NodeImport::dims(size_t i, const char* what, Elements elements) {
  if (!has(i)) fail("its {} (input {}) is missing", what, i);
  if (auto known = contents(i)) {
    const bool may_fail = elements == Elements::kSizes &&
                          std::ranges::any_of(known->dims, [&](const Dim& d) { return may_be_negative(d); });
    // Under a name of its own a size is checked while the model runs.
    return may_fail ? named(known->dims, what) : known->dims;
  }
  TensorType t = type(i);
  if (t.dtype != DType::kI64 && t.dtype != DType::kI32)
    fail("its {} must be integers, not {}", what, t.str());
  Value* value = input(i);
  Shape dims = bind(value, what, elements);
  // From here on the elements count as known: what is computed from them is dimensions too.
  if (t.rank() <= 1) {
    importer_.lookup(proto_.input(static_cast<int>(i)), name_).contents =
        t.rank() == 0 ? Contents::scalar(dims.front(), t.dtype) : Contents::vector(dims, t.dtype);
  }
  return dims;
}

Shape NodeImport::bind(Value* value, const char* what, Elements elements) {
  constexpr int64_t kMost = 256;
  const auto count = element_count(value->type.shape).constant();
  if (!count)
    unsupported(UnsupportedKind::kRunTimeValue, "{} of a length that is only known when the model runs",
                what);
  if (*count > kMost)
    unsupported(UnsupportedKind::kRunTimeValue,
                "{} of {} elements, more than {}, that are only known when the model runs", what, *count,
                kMost);
  return importer_.data_dims().of(value, elements, name_);
}

void NodeImport::assume_length(size_t i, std::optional<int64_t> count) {
  if (!count || *count < 0 || !has(i) || contents(i)) return;
  if (type(i).rank() != 1 || type(i).shape[0].is_constant()) return;
  Value* known = reshape(input(i), {*count});
  importer_.lookup(proto_.input(static_cast<int>(i)), name_).value = known;
}

DataDims& NodeImport::data_dims() {
  return importer_.data_dims();
}

bool NodeImport::may_be_negative(const Dim& dim) const {
  return importer_.data_dims().may_be_negative(dim);
}

Dim NodeImport::positive_part(const Dim& dim) const {
  return importer_.data_dims().positive_part(dim);
}

Shape NodeImport::named(Shape dims, const char* hint) {
  return importer_.data_dims().named(std::move(dims), hint, name_);
}

std::vector<int64_t> NodeImport::integers(size_t i, const char* what) {
  std::vector<int64_t> values;
  if (has(i) && !contents(i)) unsupported(UnsupportedKind::kRunTimeValue, "{}", what);
  for (const Dim& d : dims(i, what)) {
    if (!d.is_constant())
      unsupported(UnsupportedKind::kRunTimeValue, "{}, which depends on a symbolic dimension", what);
    values.push_back(d.value());
  }
  return values;
}

std::vector<double> NodeImport::numbers(size_t i, const char* what) {
  ConstantPtr data = constant(i);
  if (!data) unsupported(UnsupportedKind::kRunTimeValue, "{}", what);
  auto values = to_doubles(*data);
  if (!values) unsupported(UnsupportedKind::kElementType, "{} as {}", name_of(data->type.dtype), what);
  return *values;
}

// --- sequences and optionals

const Binding& NodeImport::binding(size_t i) {
  if (!has(i)) fail("its input {} is missing", i);
  return importer_.lookup(proto_.input(static_cast<int>(i)), name_);
}

const std::vector<Binding>& NodeImport::sequence(size_t i) {
  const Binding& found = binding(i);
  if (!found.sequence) fail("its input {} is no sequence", i);
  return *found.sequence;
}

Value* NodeImport::data_of(const Binding& binding) {
  expect_tensor(binding);
  Binding copy = binding;
  return importer_.materialise(copy, name_);
}

void NodeImport::set_binding(size_t i, Binding binding) {
  if (wants(i)) importer_.define(proto_.output(static_cast<int>(i)), std::move(binding), name_);
}

void NodeImport::set_sequence(size_t i, std::vector<Binding> elements) {
  Binding binding;
  binding.sequence = std::make_shared<const std::vector<Binding>>(std::move(elements));
  set_binding(i, std::move(binding));
}

void NodeImport::set_late(size_t i, const LateSequence& sequence) {
  Binding binding;
  binding.late = std::make_shared<const LateSequence>(sequence);
  set_binding(i, std::move(binding));
}

template <typename Read>
auto NodeImport::in_graph(const onnx::GraphProto& graph, const Read& read) const {
  try {
    return read();
  } catch (const MalformedModel& wrong) {
    const auto& attributes = proto_.attribute();
    const auto attribute =
        std::find_if(attributes.begin(), attributes.end(),
                     [&](const AttributeProto& a) { return a.has_g() && &a.g() == &graph; });
    if (attribute == attributes.end()) throw;
    std::vector<std::string> texts;
    for (const std::string& text : wrong.texts())
      texts.push_back(fmt::format("node {} ({}): in its {}: {}", name_, op_type(), attribute->name(), text));
    throw_retold(wrong, std::move(texts));
  }
}

std::vector<Binding> NodeImport::call_with(const onnx::GraphProto& graph, std::vector<Binding> arguments) {
  return in_graph(graph, [&] { return importer_.inline_graph(graph, name_, std::move(arguments)); });
}

// --- results

Function& NodeImport::function() {
  return importer_.function();
}
bool NodeImport::take_constant_budget(int64_t bytes) {
  return importer_.take_constant_budget(bytes);
}

size_t NodeImport::output_count() const {
  return static_cast<size_t>(proto_.output_size());
}
bool NodeImport::wants(size_t i) const {
  return i < output_count() && !proto_.output(static_cast<int>(i)).empty();
}

std::optional<int> NodeImport::declared_rank(size_t i) const {
  return wants(i) ? importer_.declared_ranks().of(proto_.output(static_cast<int>(i))) : std::nullopt;
}

void NodeImport::set(size_t i, Value* value) {
  set_binding(i, bound_to(value));
}

void NodeImport::set_contents(size_t i, Contents contents) {
  Binding binding;
  binding.contents = std::move(contents);
  set_binding(i, std::move(binding));
}

void NodeImport::set_constant(size_t i, ConstantPtr data) {
  if (!data) fail("its value is missing");
  Binding binding;
  binding.constant = std::move(data);
  set_binding(i, std::move(binding));
}

void NodeImport::inline_branch(const onnx::GraphProto& branch) {
  std::vector<Binding> results = call_with(branch, {});
  if (results.size() < output_count())
    fail("its branch has {} outputs, not {}", results.size(), output_count());
  for (size_t i = 0; i < output_count(); ++i) set_binding(i, std::move(results[i]));
}

std::vector<Value*> NodeImport::call_graph(const onnx::GraphProto& graph,
                                           const std::vector<Value*>& arguments) {
  std::vector<Binding> bindings(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) bindings[i].value = arguments[i];
  std::vector<Value*> results;
  for (const Binding& result : call_with(graph, std::move(bindings))) results.push_back(data_of(result));
  return results;
}

ImportedBody NodeImport::import_body(const onnx::GraphProto& graph, const StartBody& start, const GiveResults& give) {
  return in_graph(graph, [&] { return importer_.import_body(graph, name_, start, give); });
}

void NodeImport::drop_body(const ImportedBody& body) {
  importer_.drop_body(body, name_);
}

std::vector<Turn> NodeImport::turns() {
  return importer_.turns();
}

void NodeImport::set_turn(Value* number) {
  importer_.enter_turn({.number = number});
}

void NodeImport::enter_turn(int64_t number) {
  importer_.enter_turn({.known = number});
}

void NodeImport::leave_turn() {
  importer_.leave_turn();
}

Choice NodeImport::next_choice() {
  return importer_.next_choice();
}

Substituted NodeImport::substitute(const std::vector<std::string>& names, size_t varied_count,
                                   const std::string& result) {
  return importer_.substitute(names, inputs(), varied_count, result, proto_, name_);
}

Node* NodeImport::add_control(const OpHandle& op, std::shared_ptr<const Attrs> attrs, std::vector<Value*> inputs,
                              std::vector<TensorType> types, const std::vector<ImportedBody>& bodies) {
  Node* node = importer_.function().add_node(&op_set().get(op), std::move(attrs), std::move(inputs), std::move(types),
                                             {name_});
  for (const ImportedBody& body : bodies) {
    node->bodies.push_back(importer_.take_body(body.function));
    for (const std::string& warning : body.warnings) warn(warning);
  }
  return node;
}

Dim NodeImport::new_symbol(const std::string& wanted) {
  return Dim::symbol(importer_.new_symbol(wanted));
}

bool NodeImport::assume(bool likely) {
  return importer_.assumptions().answer(likely);
}

void NodeImport::warn(const std::string& text) {
  importer_.warn(text);
}

void NodeImport::probe_branch(const onnx::GraphProto& branch) {
  importer_.probe_graph(branch, name_);
}

}  // namespace gantry
