#include "host/onnx/unsupported.h"

#include <algorithm>

namespace gantry {
namespace {

/// How a list of such things is headed.
const char* heading(UnsupportedKind kind) {
  switch (kind) {
    case UnsupportedKind::kOp:
      return "ops";
    case UnsupportedKind::kAttribute:
      return "attributes";
    case UnsupportedKind::kElementType:
      return "element types";
    case UnsupportedKind::kValueKind:
      return "values that are no dense tensors";
    case UnsupportedKind::kRunTimeValue:
      return "values that are only known when the model runs, but needed when compiling";
    case UnsupportedKind::kControlFlow:
      return "control flow";
    case UnsupportedKind::kOutput:
      return "optional outputs";
  }
  internal_error("unknown kind of unsupported thing");
}

/// Names come in the order of the model, so that equal ones are neighbours.
void add_once(std::vector<std::string>& list, const std::string& name) {
  if (list.empty() || list.back() != name) list.push_back(name);
}

/// ", input 'x', nodes a, b"
std::string users_text(const UnsupportedFeature& feature) {
  std::string text;
  for (const std::string& place : feature.places) text += ", " + place;
  const char* first = feature.nodes.size() == 1 ? ", node " : ", nodes ";
  for (const std::string& node : feature.nodes)
    text += (&node == &feature.nodes.front() ? first : ", ") + node;
  return text;
}

const char* remedy(const UnsupportedFeature& feature) {
  switch (feature.kind) {
    case UnsupportedKind::kElementType:
      return "Let the exporter write another element type, or cast before these nodes.";
    case UnsupportedKind::kRunTimeValue:
    case UnsupportedKind::kControlFlow:
      return "Values that follow from an input's shape become known with --shape NAME=…; for others let the "
             "exporter write constants.";
    case UnsupportedKind::kOp:
      if (feature.what.starts_with("com.microsoft.nchwc::"))
        return "Ops of com.microsoft.nchwc are for the CPU on which ONNX Runtime optimised the model: take "
               "the model as it "
               "was before, or let ONNX Runtime save it with ORT_ENABLE_EXTENDED.";
      return "Cut off or replace in the exporter what is not supported, or bring ops of your own with --custom-ops "
             "(docs/custom-ops.md).";
    default:
      return "Cut off or replace in the exporter what is not supported.";
  }
}

}  // namespace

std::string_view name_of(UnsupportedKind kind) {
  switch (kind) {
    case UnsupportedKind::kOp:
      return "op";
    case UnsupportedKind::kAttribute:
      return "attribute";
    case UnsupportedKind::kElementType:
      return "element_type";
    case UnsupportedKind::kValueKind:
      return "value_kind";
    case UnsupportedKind::kRunTimeValue:
      return "run_time_value";
    case UnsupportedKind::kControlFlow:
      return "control_flow";
    case UnsupportedKind::kOutput:
      return "output";
  }
  internal_error("unknown kind of unsupported thing");
}

UnsupportedFeature& UnsupportedReport::entry(UnsupportedKind kind, const std::string& what) {
  UnsupportedFeature& feature = features_[{kind, what}];
  feature.kind = kind;
  feature.what = what;
  return feature;
}

void UnsupportedReport::add_node(UnsupportedKind kind, const std::string& what, const std::string& node) {
  add_once(entry(kind, what).nodes, node);
}

void UnsupportedReport::add_place(UnsupportedKind kind, const std::string& what, const std::string& place) {
  add_once(entry(kind, what).places, place);
}

std::vector<UnsupportedFeature> UnsupportedReport::features() const {
  std::vector<UnsupportedFeature> all;
  for (const auto& [key, feature] : features_) all.push_back(feature);
  return all;
}

std::string UnsupportedReport::text() const {
  std::string text = "uses what gantry does not support:";
  std::vector<std::string_view> remedies;
  const UnsupportedFeature* previous = nullptr;
  for (const auto& [key, feature] : features_) {
    const bool starts = previous == nullptr || previous->kind != feature.kind;
    if (starts) text += fmt::format("\n  {}:", heading(feature.kind));
    const std::string_view advice = remedy(feature);
    if (std::find(remedies.begin(), remedies.end(), advice) == remedies.end()) remedies.push_back(advice);
    text += fmt::format("\n    {}{}", feature.what, users_text(feature));
    previous = &feature;
  }
  for (const std::string_view line : remedies) text += fmt::format("\n{}", line);
  return text + "\ndocs/onnx-support.md lists what is supported.";
}

}  // namespace gantry
