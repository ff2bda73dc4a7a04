#include "host/machine/cpu_features.h"

#include <algorithm>
#include <utility>

#include "host/machine/cpu_family.h"

namespace gantry {
namespace {

/// The relevant features that `contains` says are there, in the fixed order.
template <typename Contains>
std::vector<std::string> select_relevant(const CpuFamily& family, Contains contains) {
  std::vector<std::string> result;
  for (std::string_view feature : family.features) {
    if (contains(feature)) result.emplace_back(feature);
  }
  return result;
}

}  // namespace

bool has_feature(const std::vector<std::string>& features, std::string_view feature) {
  return std::ranges::find(features, feature) != features.end();
}

std::vector<std::string> add_feature(const CpuFamily& family, std::vector<std::string> features,
                                     std::string_view feature) {
  if (has_feature(features, feature)) return features;
  features.emplace_back(feature);
  for (const auto& [dependent, needed] : family.needs) {
    if (dependent == feature) features = add_feature(family, std::move(features), needed);
  }
  return select_relevant(family, [&](std::string_view f) { return has_feature(features, f); });
}

std::vector<std::string> remove_feature(const CpuFamily& family, std::vector<std::string> features,
                                        std::string_view feature) {
  if (!has_feature(features, feature)) return features;
  std::erase(features, feature);
  for (const auto& [dependent, needed] : family.needs) {
    if (needed == feature) features = remove_feature(family, std::move(features), dependent);
  }
  return features;
}

namespace {

/// The first instruction of the target's CPU that `fits`.
template <typename Fits>
const TileInstruction* first_instruction(const Target& target, Fits fits) {
  if (target.family == nullptr) return nullptr;
  const auto known = target.family->tile_instructions;
  const auto found = std::ranges::find_if(known, [&](const TileInstruction* one) {
    return one->is_there(target.features) && fits(*one->geometry);
  });
  return found == known.end() ? nullptr : *found;
}

}  // namespace

const TileInstruction* tile_instruction(const Target& target, DType element) {
  return first_instruction(target, [&](const TileGeometry& geometry) { return geometry.element == element; });
}

const TileInstruction* tile_instruction(const Target& target, TileUnit unit) {
  return first_instruction(target,
                           [&](const TileGeometry& geometry) { return geometry.name == name_of(unit); });
}

std::optional<TileUnit> tile_unit(const Target& target) {
  return tile_unit(target, target.precision == Precision::kFp16 ? DType::kF16 : DType::kBF16);
}

std::optional<TileUnit> tile_unit(const Target& target, DType element) {
  const TileInstruction* instruction = tile_instruction(target, element);
  if (instruction == nullptr) return std::nullopt;
  return tile_unit_named(instruction->geometry->name);
}

}  // namespace gantry
