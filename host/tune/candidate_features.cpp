#include "host/tune/candidate_features.h"

#include <fmt/format.h>

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

void add_type_names(std::vector<std::string>& names, std::string_view value) {
  for (size_t i = 0; i < kAxes; ++i) names.push_back(fmt::format("{}.{}", value, i));
  names.push_back(fmt::format("{}.bytes", value));
}

void add_dim(std::vector<float>& features, const Dim& dim) {
  const auto value = dim.constant();
  features.push_back(value ? log_of(static_cast<double>(*value)) : kMissing);
}

const std::vector<std::string_view>& forms() {
  static const std::vector<std::string_view> names = form_names();
  return names;
}

const std::vector<std::string_view>& knobs() {
  static const std::vector<std::string_view> names = knob_names();
  return names;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names{"predicted"};
  for (const std::string_view form : forms()) names.push_back(fmt::format("form.{}", form));
  for (const std::string_view knob : knobs()) names.push_back(fmt::format("knob.{}", knob));
  for (const std::string_view value : {"data", "weight", "result"}) add_type_names(names, value);
  for (const char* name :
       {"flops", "bytes", "vector_bytes", "vector_registers", "l1_bytes", "l2_bytes", "threads"})
    names.emplace_back(name);
  return names;
}

}  // namespace

const std::vector<std::string>& feature_names() {
  static const std::vector<std::string> names = all_names();
  return names;
}

std::vector<float> features_of(const Node& node, const Decision& decision, std::optional<double> predicted,
                               const Target& target, int threads) {
  std::vector<float> features{predicted ? log_of(*predicted) : kMissing};
  for (const std::string_view form : forms()) features.push_back(decision.form == form ? 1 : 0);
  for (const std::string_view knob : knobs()) {
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
