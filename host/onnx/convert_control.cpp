// Constants, identities, and branches whose condition is known.
#include <onnx/onnx_pb.h>

#include "host/onnx/converters.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

template <typename T>
ConstantPtr scalar_constant(DType dtype, T value) {
  return make_constant({dtype, {}}, &value);
}
template <typename T>
ConstantPtr vector_constant(DType dtype, const std::vector<T>& values) {
  T none{};
  return make_constant({dtype, {static_cast<int64_t>(values.size())}},
                       values.empty() ? &none : values.data());
}

void convert_constant(NodeImport& n) {
  if (n.has_attribute("value")) return n.set_constant(0, n.tensor("value"));
  if (n.has_attribute("value_float")) {
    return n.set_constant(0, scalar_constant(DType::kF32, static_cast<float>(n.number("value_float", 0))));
  }
  if (n.has_attribute("value_int"))
    return n.set_constant(0, scalar_constant(DType::kI64, n.integer("value_int", 0)));
  if (n.has_attribute("value_floats")) {
    std::vector<double> values = n.number_list("value_floats");
    return n.set_constant(0, vector_constant(DType::kF32, std::vector<float>(values.begin(), values.end())));
  }
  if (n.has_attribute("value_ints"))
    return n.set_constant(0, vector_constant(DType::kI64, n.integer_list("value_ints")));
  if (n.has_attribute("sparse_value")) n.unsupported(UnsupportedKind::kValueKind, "sparse tensor");
  if (n.has_attribute("value_string") || n.has_attribute("value_strings"))
    n.unsupported(UnsupportedKind::kElementType, "STRING");
  n.fail("its value is missing");
}

void convert_identity(NodeImport& n) {
  if (ConstantPtr known = n.constant(0)) return n.set_constant(0, known);
  n.set(0, n.add(op::identity, {n.input(0)}));
}

void convert_if(NodeImport& n) {
  auto condition = n.contents(0);
  if (!condition || condition->dims.size() != 1 || !condition->dims[0].is_constant()) {
    for (const char* branch : {"then_branch", "else_branch"}) n.probe_branch(n.graph(branch));
    n.unsupported(UnsupportedKind::kControlFlow, "its condition is only known when the model runs");
  }
  n.inline_branch(n.graph(condition->dims[0].value() != 0 ? "then_branch" : "else_branch"));
}

}  // namespace

void add_control_converters(ConverterTable& table) {
  table.push_back({"Constant", 1, convert_constant});
  table.push_back({"Identity", 1, convert_identity});
  table.push_back({"If", 1, convert_if});
}

}  // namespace gantry
