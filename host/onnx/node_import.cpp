#include "host/onnx/node_import.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "host/graph/small_float.h"
#include "host/onnx/importer.h"
#include "host/onnx/malformed.h"
#include "host/onnx/open_operands.h"
#include "host/onnx/sparse_tensor.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/repeat.h"
#include "host/tensor/element.h"

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
  if (!count || *count > kMost)
    unsupported(UnsupportedKind::kRunTimeValue, "{} of a length that is only known when the model runs",
                what);
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

namespace {
template <typename T>
std::vector<double> widen_all(const ConstantData& data) {
  const T* values = data.as<T>();
  return {values, values + data.size / sizeof(T)};
}
std::optional<std::vector<double>> to_doubles(const ConstantData& data) {
  switch (data.type.dtype) {
    case DType::kF32:
      return widen_all<float>(data);
    case DType::kF64:
      return widen_all<double>(data);
    case DType::kI4:
    case DType::kI2:
    case DType::kI8:
      return widen_all<int8_t>(data);
    case DType::kI16:
      return widen_all<int16_t>(data);
    case DType::kI32:
      return widen_all<int32_t>(data);
    case DType::kI64:
      return widen_all<int64_t>(data);
    case DType::kU4:
    case DType::kU2:
    case DType::kU8:
      return widen_all<uint8_t>(data);
    case DType::kU16:
      return widen_all<uint16_t>(data);
    case DType::kU32:
      return widen_all<uint32_t>(data);
    case DType::kU64:
      return widen_all<uint64_t>(data);
    case DType::kBool:
      return widen_all<bool>(data);
    case DType::kF16:
    case DType::kBF16: {
      std::vector<double> values;
      for (size_t at = 0; at < data.size; at += 2)
        values.push_back(read_float(data.type.dtype, data.bytes + at));
      return values;
    }
    default: {
      if (!is_small_float(data.type.dtype)) return std::nullopt;
      std::vector<double> values;
      for (size_t at = 0; at < data.size; ++at)
        values.push_back(small_float_value(data.type.dtype, static_cast<uint8_t>(data.bytes[at])));
      return values;
    }
  }
}
}  // namespace

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

// --- attributes

const AttributeProto* NodeImport::find(const char* name, int type, const char* type_name) const {
  for (const AttributeProto& attribute : proto_.attribute()) {
    if (attribute.name() != name) continue;
    if (!attribute.ref_attr_name().empty())
      fail("its attribute {} refers to an attribute of a function", name);
    // Files of the first IR versions leave the type unset.
    bool matches = attribute.type() == type || attribute.type() == AttributeProto::UNDEFINED;
    if (!matches) fail("its attribute {} must be {}", name, type_name);
    return &attribute;
  }
  return nullptr;
}

bool NodeImport::has_attribute(const char* name) const {
  for (const AttributeProto& attribute : proto_.attribute()) {
    if (attribute.name() == name) return true;
  }
  return false;
}

int64_t NodeImport::integer(const char* name, int64_t otherwise) const {
  auto* a = find(name, AttributeProto::INT, "an integer");
  return a ? a->i() : otherwise;
}
double NodeImport::number(const char* name, double otherwise) const {
  auto* a = find(name, AttributeProto::FLOAT, "a number");
  return a ? static_cast<double>(a->f()) : otherwise;
}
std::string NodeImport::text(const char* name, const std::string& otherwise) const {
  auto* a = find(name, AttributeProto::STRING, "a text");
  return a ? a->s() : otherwise;
}
std::vector<int64_t> NodeImport::integer_list(const char* name) const {
  auto* a = find(name, AttributeProto::INTS, "a list of integers");
  return a ? std::vector<int64_t>(a->ints().begin(), a->ints().end()) : std::vector<int64_t>{};
}
std::vector<int64_t> NodeImport::integer_list(const char* name, size_t count, int64_t otherwise) const {
  std::vector<int64_t> values = integer_list(name);
  if (values.empty()) values.assign(count, otherwise);
  if (values.size() != count)
    fail("its attribute {} should have {} entries, not {}", name, count, values.size());
  return values;
}
std::vector<double> NodeImport::number_list(const char* name) const {
  auto* a = find(name, AttributeProto::FLOATS, "a list of numbers");
  return a ? std::vector<double>(a->floats().begin(), a->floats().end()) : std::vector<double>{};
}
std::vector<std::string> NodeImport::text_list(const char* name) const {
  auto* a = find(name, AttributeProto::STRINGS, "a list of texts");
  return a ? std::vector<std::string>(a->strings().begin(), a->strings().end()) : std::vector<std::string>{};
}
ConstantPtr NodeImport::tensor(const char* name) const {
  auto* a = find(name, AttributeProto::TENSOR, "a tensor");
  return a && a->has_t()
             ? importer_.tensors().read(a->t(), fmt::format("node {}: the tensor '{}'", name_, name))
             : nullptr;
}
ConstantPtr NodeImport::sparse_tensor(const char* name) const {
  auto* a = find(name, AttributeProto::SPARSE_TENSOR, "a sparse tensor");
  return a && a->has_sparse_tensor() ? dense_tensor(importer_.tensors(), a->sparse_tensor(),
                                                    fmt::format("node {}: the tensor '{}'", name_, name))
                                     : nullptr;
}
std::vector<double> NodeImport::tensor_numbers(const char* name) const {
  const ConstantPtr data = tensor(name);
  if (!data) fail("its attribute {} is missing", name);
  auto values = to_doubles(*data);
  if (!values) unsupported(UnsupportedKind::kElementType, "{} as {}", name_of(data->type.dtype), name);
  return *values;
}
DType NodeImport::cast_target() const {
  if (opset() < 6) {  // named by a text
    onnx::TensorProto::DataType type = onnx::TensorProto::UNDEFINED;
    std::string name = text("to", "");
    if (!onnx::TensorProto::DataType_Parse(name, &type)) fail("its attribute to is unknown: '{}'", name);
    return dtype_of(type, "the cast");
  }
  return dtype_of(static_cast<int>(integer("to", 0)), fmt::format("node {}: its result", name_));
}

DType NodeImport::element_type(const char* name) const {
  return dtype_of(static_cast<int>(integer(name, 0)), fmt::format("node {}: its {}", name_, name));
}

const onnx::GraphProto& NodeImport::graph(const char* name) const {
  auto* a = find(name, AttributeProto::GRAPH, "a graph");
  if (a == nullptr || !a->has_g()) fail("its attribute {} is missing", name);
  return a->g();
}

int64_t NodeImport::axis(int64_t given, int rank) const {
  if (given < -rank || given >= rank) fail("axis {} is outside a tensor of rank {}", given, rank);
  return given < 0 ? given + rank : given;
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
  if (!wants(i)) return;
  Binding binding;
  binding.value = value;
  importer_.define(proto_.output(static_cast<int>(i)), std::move(binding), name_);
}

void NodeImport::set_contents(size_t i, Contents contents) {
  if (!wants(i)) return;
  Binding binding;
  binding.contents = std::move(contents);
  importer_.define(proto_.output(static_cast<int>(i)), std::move(binding), name_);
}

void NodeImport::set_constant(size_t i, ConstantPtr data) {
  if (!data) fail("its value is missing");
  if (!wants(i)) return;
  Binding binding;
  binding.constant = std::move(data);
  importer_.define(proto_.output(static_cast<int>(i)), std::move(binding), name_);
}

void NodeImport::inline_branch(const onnx::GraphProto& branch) {
  std::vector<Binding> results = call_with(branch, {});
  if (results.size() < output_count())
    fail("its branch has {} outputs, not {}", results.size(), output_count());
  for (size_t i = 0; i < output_count(); ++i) {
    if (wants(i)) importer_.define(proto_.output(static_cast<int>(i)), std::move(results[i]), name_);
  }
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
  importer_.drop_body(body);
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

Value* NodeImport::dims_as_data(Shape dims) {
  return importer_.dims_as_data(Contents::vector(std::move(dims)), name_);
}

std::vector<Value*> NodeImport::add_any(const OpHandle& op, std::vector<Value*> inputs,
                                        std::shared_ptr<const Attrs> attrs) {
  Function& function = importer_.function();
  std::vector<ConstantPtr> known = importer_.try_evaluate(op, attrs, inputs);
  if (known.empty()) {
    const OpDef& declared = op_set().get(op);
    repeat_open_operands(function, declared, inputs, name_, importer_.data_dims());
    return infer_and_add(function, declared, std::move(attrs), std::move(inputs), {name_})->results;
  }
  std::vector<Value*> values;
  for (ConstantPtr& data : known) values.push_back(function.add_constant(name_, std::move(data)));
  return values;
}

Value* NodeImport::constant_value(ConstantPtr data, const char* hint) {
  return importer_.function().add_constant(name_ + "." + hint, std::move(data));
}

Value* NodeImport::scalar(DType dtype, double value) {
  if (dtype == DType::kF32) {
    float narrow = static_cast<float>(value);
    return constant_value(make_constant({DType::kF32, {}}, &narrow), "scalar");
  }
  Value* wide = constant_value(make_constant({DType::kF64, {}}, &value), "scalar");
  if (dtype == DType::kF64) return wide;
  return cast(wide, dtype);
}

Value* NodeImport::cast(Value* x, DType dtype) {
  if (x->type.dtype == dtype) return x;
  auto attrs = std::make_shared<CastAttrs>();
  attrs->to = dtype;
  return add(op::cast, {x}, attrs);
}

Value* NodeImport::reshape(Value* x, Shape shape) {
  if (x->type.shape == shape) return x;
  auto attrs = std::make_shared<ReshapeAttrs>();
  attrs->shape = std::move(shape);
  return add(op::reshape, {x}, attrs);
}

Value* NodeImport::broadcast(Value* x, Shape shape) {
  if (x->type.shape == shape) return x;
  return add(op::broadcast_to, {x}, ops::broadcast_attrs(x->type.shape, std::move(shape)));
}

Value* NodeImport::slice(Value* x, int64_t axis, Dim begin, Dim end, int64_t stride) {
  if (axis < 0 || axis >= static_cast<int64_t>(x->type.shape.size()))
    fail("an input of type {} has too few dimensions", x->type.str());
  auto attrs = std::make_shared<StridedSliceAttrs>();
  attrs->begin.assign(x->type.shape.size(), 0);
  attrs->end = x->type.shape;
  attrs->strides.assign(x->type.shape.size(), 1);
  attrs->begin[static_cast<size_t>(axis)] = std::move(begin);
  attrs->end[static_cast<size_t>(axis)] = std::move(end);
  attrs->strides[static_cast<size_t>(axis)] = stride;
  return add(op::strided_slice, {x}, attrs);
}

Value* NodeImport::transpose(Value* x, std::vector<int64_t> axes) {
  auto attrs = std::make_shared<TransposeAttrs>();
  attrs->axes = std::move(axes);
  return add(op::transpose, {x}, attrs);
}

}  // namespace gantry
