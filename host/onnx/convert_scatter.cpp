// Ops that write by index.
#include "host/onnx/converters.h"
#include "host/ops/scatter.h"

namespace gantry {
namespace {

void convert_scatter(NodeImport& n) {
  auto attrs = std::make_shared<ScatterAttrs>();
  const std::string reduction = n.text("reduction", "none");
  const std::pair<const char*, ScatterReduction> kinds[] = {{"none", ScatterReduction::kNone},
                                                            {"add", ScatterReduction::kAdd},
                                                            {"mul", ScatterReduction::kMultiply},
                                                            {"max", ScatterReduction::kMax},
                                                            {"min", ScatterReduction::kMin}};
  bool known = false;
  for (const auto& [name, kind] : kinds) {
    if (reduction != name) continue;
    attrs->reduction = kind;
    known = true;
  }
  if (!known) n.unsupported(UnsupportedKind::kAttribute, "reduction '{}'", reduction);
  const bool slices = n.op_type() == "ScatterND";
  if (!slices) attrs->axis = n.axis(n.integer("axis", 0), n.rank(0));
  n.set(0, n.add(slices ? op::scatter_nd : op::scatter_elements, {n.input(0), n.input(1), n.input(2)}, attrs));
}

}  // namespace

void add_scatter_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"Scatter", 9, convert_scatter},
      {"ScatterElements", 11, convert_scatter},
      {"ScatterND", 11, convert_scatter},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
