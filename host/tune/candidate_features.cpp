#include "host/tune/candidate_features.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "host/driver/kernel_builder.h"
#include "host/forms/form.h"

namespace gantry::tune {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kAxes = 5;

float log_of(double value) {
  return value >= 0 ? static_cast<float>(std::log2(1 + value)) : kMissing;
}

/// Of all forms, in the order of their list, once each.
std::vector<std::string_view> form_names() {
  std::vector<std::string_view> names;
  for (const forms::ListedForm& listed : forms::all_forms()) {
    if (std::ranges::find(names, listed.form->name) == names.end()) names.push_back(listed.form->name);
  }
  return names;
}

std::vector<std::string_view> knob_names() {
  std::vector<std::string_view> names;
  for (const forms::ListedForm& listed : forms::all_forms()) {
    for (const forms::Knob& knob : listed.form->knobs) {
      if (std::ranges::find(names, knob.name) == names.end()) names.push_back(knob.name);
    }
  }
  return names;
}

void add_type(std::vector<float>& features, const Value* value) {
  for (size_t i = 0; i < kAxes; ++i) {
    const bool there = value != nullptr && i < value->type.shape.size();
    const auto extent = there ? value->type.shape[i].constant() : std::nullopt;
    features.push_back(extent ? log_of(static_cast<double>(*extent)) : kMissing);
  }
  features.push_back(value == nullptr ? kMissing : static_cast<float>(byte_width(value->type.dtype)));
}

void add_dim(std::vector<float>& features, const Dim& dim) {
  const auto value = dim.constant();
  features.push_back(value ? log_of(static_cast<double>(*value)) : kMissing);
}

}  // namespace

std::vector<float> features_of(const Node& node, const Decision& decision, std::optional<double> predicted,
                               const Target& target, int threads) {
  static const std::vector<std::string_view> forms = form_names(), knobs = knob_names();
  std::vector<float> features{predicted ? log_of(*predicted) : kMissing};
  for (const std::string_view form : forms) features.push_back(decision.form == form ? 1 : 0);
  for (const std::string_view knob : knobs) {
    const auto own = std::ranges::find(decision.knobs, knob, &std::pair<std::string, int64_t>::first);
    features.push_back(own == decision.knobs.end() ? kMissing : log_of(static_cast<double>(own->second)));
  }
  add_type(features, node.inputs.empty() ? nullptr : node.inputs[0]);
  add_type(features, node.inputs.size() > 1 ? node.inputs[1] : nullptr);
  add_type(features, node.results.empty() ? nullptr : node.result());
  add_dim(features, flops_of(node));
  add_dim(features, bytes_of(node));
  const MachineModel& machine = target.machine;
  for (const double figure : {double(machine.vector_bytes), double(machine.vector_registers),
                              double(machine.l1_bytes), double(machine.l2_bytes), double(threads)})
    features.push_back(log_of(figure));
  return features;
}

}  // namespace gantry::tune
