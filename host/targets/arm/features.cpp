// The features of AArch64 that matter here.
#include "host/targets/arm/family.h"

namespace gantry::arm {
namespace {

constexpr std::string_view kFeatures[] = {"fp-armv8", "neon", "rdm", "fullfp16", "dotprod",
                                          "i8mm",     "bf16", "sve", "sve2"};
constexpr FeatureNeed kNeeds[] = {{"neon", "fp-armv8"}, {"rdm", "neon"},  {"fullfp16", "fp-armv8"},
                                  {"dotprod", "neon"},  {"i8mm", "neon"}, {"bf16", "neon"},
                                  {"sve", "fullfp16"},  {"sve2", "sve"}};

}  // namespace

std::span<const std::string_view> feature_names() {
  return kFeatures;
}

std::span<const FeatureNeed> feature_needs() {
  return kNeeds;
}

}  // namespace gantry::arm
