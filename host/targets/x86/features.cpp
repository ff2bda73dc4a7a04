// The features of x86-64 that matter here.
#include "host/targets/x86/family.h"

namespace gantry::x86 {
namespace {

constexpr std::string_view kFeatures[] = {"sse3",     "ssse3",    "sse4.1",     "sse4.2",     "popcnt",
                                          "avx",      "avx2",     "fma",        "f16c",       "bmi",
                                          "bmi2",     "lzcnt",    "avx512f",    "avx512bw",   "avx512cd",
                                          "avx512dq", "avx512vl", "avx512vnni", "avx512bf16", "avx512fp16",
                                          "avxvnni",  "amx-tile", "amx-int8",   "amx-bf16",   "amx-fp16"};
constexpr FeatureNeed kNeeds[] = {{"ssse3", "sse3"},
                                  {"sse4.1", "ssse3"},
                                  {"sse4.2", "sse4.1"},
                                  {"avx", "sse4.2"},
                                  {"avx2", "avx"},
                                  {"fma", "avx"},
                                  {"f16c", "avx"},
                                  {"avx512f", "avx2"},
                                  {"avx512f", "fma"},
                                  {"avx512f", "f16c"},
                                  {"avx512bw", "avx512f"},
                                  {"avx512cd", "avx512f"},
                                  {"avx512dq", "avx512f"},
                                  {"avx512vl", "avx512f"},
                                  {"avx512vnni", "avx512f"},
                                  {"avx512bf16", "avx512bw"},
                                  {"avx512fp16", "avx512bw"},
                                  {"avx512fp16", "avx512dq"},
                                  {"avx512fp16", "avx512vl"},
                                  {"avxvnni", "avx2"},
                                  {"amx-int8", "amx-tile"},
                                  {"amx-bf16", "amx-tile"},
                                  {"amx-fp16", "amx-tile"}};

}  // namespace

std::span<const std::string_view> feature_names() {
  return kFeatures;
}

std::span<const FeatureNeed> feature_needs() {
  return kNeeds;
}

}  // namespace gantry::x86
