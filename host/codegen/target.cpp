#include "host/codegen/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "host/codegen/backends.h"
#include "host/codegen/cpu_features.h"
#include "host/codegen/gpu_target.h"
#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry {
namespace {

struct NamedTarget {
  std::string_view name, cpu;
  Architecture architecture;
  std::string_view description;
};
constexpr Architecture kX86 = Architecture::kX86_64, kArm = Architecture::kAArch64;
/// Levels are named for their instruction set and run on every such CPU; the others are tuned for one CPU.
constexpr std::array kNamed = {
    NamedTarget{"x86-64-v2", "x86-64-v2", kX86, "any x86-64 since 2009: SSE4.2"},
    NamedTarget{"x86-64-v3", "x86-64-v3", kX86, "x86-64 since Haswell and Zen: AVX2, FMA"},
    NamedTarget{"x86-64-v4", "x86-64-v4", kX86, "x86-64 with AVX-512 (F, BW, CD, DQ, VL)"},
    NamedTarget{"haswell", "haswell", kX86, "Intel Haswell: AVX2"},
    NamedTarget{"skylake", "skylake", kX86, "Intel Skylake client: AVX2"},
    NamedTarget{"skylake-avx512", "skylake-avx512", kX86, "Intel Skylake server: AVX-512"},
    NamedTarget{"cascadelake", "cascadelake", kX86, "Intel Cascade Lake: AVX-512, VNNI"},
    NamedTarget{"cooperlake", "cooperlake", kX86, "Intel Cooper Lake: AVX-512, VNNI, BF16"},
    NamedTarget{"icelake-server", "icelake-server", kX86, "Intel Ice Lake server: AVX-512, VNNI"},
    NamedTarget{"sapphirerapids", "sapphirerapids", kX86, "Intel Sapphire Rapids: AVX-512, BF16, FP16, AMX"},
    NamedTarget{"alderlake", "alderlake", kX86, "Intel Alder Lake and later clients: AVX2, AVX-VNNI"},
    NamedTarget{"znver2", "znver2", kX86, "AMD Zen 2: AVX2"},
    NamedTarget{"znver3", "znver3", kX86, "AMD Zen 3: AVX2"},
    NamedTarget{"znver4", "znver4", kX86, "AMD Zen 4: AVX-512, VNNI, BF16"},
    NamedTarget{"znver5", "znver5", kX86, "AMD Zen 5: AVX-512, VNNI, BF16"},
    NamedTarget{"aarch64", "generic", kArm, "any 64-bit Arm: NEON"},
    NamedTarget{"aarch64+dotprod", "", kArm, "64-bit Arm with dot products (most since Armv8.2)"},
    NamedTarget{"aarch64+dotprod+fp16", "", kArm,
                "64-bit Arm with dot products and half-precision arithmetic"},
    NamedTarget{"aarch64+bf16", "", kArm, "64-bit Arm with matrix products of bf16 (for --precision)"},
    NamedTarget{"cortex-a53", "cortex-a53", kArm, "Arm Cortex-A53 (Raspberry Pi 3)"},
    NamedTarget{"cortex-a55", "cortex-a55", kArm, "Arm Cortex-A55: dotprod, fp16"},
    NamedTarget{"cortex-a72", "cortex-a72", kArm, "Arm Cortex-A72 (Raspberry Pi 4)"},
    NamedTarget{"cortex-a76", "cortex-a76", kArm, "Arm Cortex-A76 (Raspberry Pi 5): dotprod, fp16"},
    NamedTarget{"cortex-a78", "cortex-a78", kArm, "Arm Cortex-A78 (Jetson Orin): dotprod, fp16"},
    NamedTarget{"cortex-x1", "cortex-x1", kArm, "Arm Cortex-X1: dotprod, fp16"},
    NamedTarget{"neoverse-n1", "neoverse-n1", kArm,
                "Arm Neoverse N1 (Graviton 2, Ampere Altra): dotprod, fp16"},
    NamedTarget{"neoverse-v1", "neoverse-v1", kArm,
                "Arm Neoverse V1 (Graviton 3): dotprod, fp16, bf16, i8mm"},
    NamedTarget{"neoverse-n2", "neoverse-n2", kArm, "Arm Neoverse N2: dotprod, fp16, bf16, i8mm"},
    NamedTarget{"apple-m1", "apple-m1", kArm, "Apple M1 under Linux: dotprod, fp16"},
};

/// What users write -> LLVM's name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kFeatureAliases = {
    {{"fp16", "fullfp16"}, {"sse4_1", "sse4.1"}, {"sse4_2", "sse4.2"}, {"vnni", "avx512vnni"}}};

const char* triple_of(Architecture architecture) {
  return architecture == kArm ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu";
}

int vector_class(Architecture architecture, const std::vector<std::string>& features) {
  if (architecture == kArm) return has_feature(features, "dotprod") ? 2 : 1;
  if (has_feature(features, "avx512f")) return 4;
  return has_feature(features, "avx2") ? 3 : 2;
}

Target make_target(std::string name, std::string description, Architecture architecture, std::string cpu,
                   std::vector<std::string> features) {
  Target t;
  t.name = std::move(name);
  t.description = std::move(description);
  t.architecture = architecture;
  t.triple = triple_of(architecture);
  t.machine = machine_model(architecture, cpu, features);
  t.rank = 100 * vector_class(architecture, features) + static_cast<int>(features.size());
  t.cpu = std::move(cpu);
  t.features = std::move(features);
  return t;
}

/// x86-64 alone is SSE2, without roundings: they would be calls of the C library, which kernels do not have.
bool has_what_is_needed(Architecture architecture, const std::vector<std::string>& features) {
  return has_feature(features, architecture == kX86 ? "sse4.2" : "neon");
}

[[noreturn]] void refuse_old_x86(std::string_view name) {
  user_error("target {}: gantry needs a CPU with SSE4.2 (x86-64-v2) or better", name);
}

/// A target without suffixes.
std::optional<Target> find_base(std::string_view name) {
  for (const NamedTarget& known : kNamed) {
    if (known.name == name && !known.cpu.empty()) {
      return make_target(std::string(name), std::string(known.description), known.architecture,
                         std::string(known.cpu), *features_of_cpu(known.architecture, known.cpu));
    }
  }
  if (name == "generic" || name == "x86-64" || name == "k8") return std::nullopt;
  for (Architecture architecture : {kX86, kArm}) {
    if (auto features = features_of_cpu(architecture, name)) {
      if (architecture == kX86 && !has_what_is_needed(kX86, *features)) refuse_old_x86(name);
      return make_target(std::string(name), fmt::format("the CPU that LLVM calls {}", name), architecture,
                         std::string(name), std::move(*features));
    }
  }
  return std::nullopt;
}

std::string_view llvm_feature_name(std::string_view feature) {
  for (const auto& [alias, name] : kFeatureAliases) {
    if (alias == feature) return name;
  }
  return feature;
}

/// The longest feature (or alias) that `text` begins with and that ends at a suffix sign.
std::string_view leading_feature(Architecture architecture, std::string_view text) {
  std::string_view best;
  auto consider = [&](std::string_view f) {
    const bool ends = text.size() == f.size() ||
                      (text.size() > f.size() && (text[f.size()] == '+' || text[f.size()] == '-'));
    if (text.starts_with(f) && ends && f.size() > best.size()) best = f;
  };
  for (std::string_view f : relevant_features(architecture)) consider(f);
  for (const auto& [alias, name] : kFeatureAliases) {
    if (std::ranges::find(relevant_features(architecture), name) != relevant_features(architecture).end())
      consider(alias);
  }
  return best;
}

/// Applies "+feature-feature…". A user error names a feature that the architecture does not have.
Target apply_suffixes(Target base, std::string_view suffixes, std::string_view whole) {
  if (suffixes.empty()) return base;
  std::vector<std::string> features = base.features;
  const std::vector<std::string> before = features;
  while (!suffixes.empty()) {
    const bool adds = suffixes[0] == '+';
    suffixes.remove_prefix(1);
    std::string_view written = leading_feature(base.architecture, suffixes);
    if (written.empty()) {
      user_error("target {}: unknown feature at '{}'; known: {}", whole, suffixes,
                 fmt::join(relevant_features(base.architecture), ", "));
    }
    suffixes.remove_prefix(written.size());
    std::string_view feature = llvm_feature_name(written);
    features = adds ? add_feature(base.architecture, std::move(features), feature)
                    : remove_feature(base.architecture, std::move(features), feature);
  }
  if (base.architecture == kX86 && !has_feature(features, "sse4.2")) {
    user_error("target {}: gantry needs SSE4.2 (x86-64-v2) or better", whole);
  }
  if (base.architecture == kArm && !has_feature(features, "neon"))
    user_error("target {}: gantry needs NEON", whole);
  return make_target(std::string(whole), base.description + ", with changed features", base.architecture,
                     base.cpu, std::move(features));
}

/// "base+added-removed", in the fixed order of features; the base alone where nothing differs.
std::string normalised_name(const Target& base, const std::vector<std::string>& features) {
  // Only what no other named feature implies is named.
  std::string name = base.name;
  std::vector<std::string> reached = base.features;
  const auto& all = relevant_features(base.architecture);
  for (auto f = all.rbegin(); f != all.rend(); ++f) {
    if (!has_feature(features, *f) || has_feature(reached, *f)) continue;
    reached = add_feature(base.architecture, std::move(reached), *f);
    name += fmt::format("+{}", *f == "fullfp16" ? "fp16" : *f);
  }
  for (std::string_view f : all) {
    if (has_feature(features, f) || !has_feature(reached, f)) continue;
    reached = remove_feature(base.architecture, std::move(reached), f);
    name += fmt::format("-{}", f);
  }
  return name;
}

[[noreturn]] void unknown_target(std::string_view name) {
  if (name == "x86-64" || name == "k8") refuse_old_x86(name);
  std::vector<std::string> candidates;
  for (Architecture architecture : {kX86, kArm}) {
    for (std::string& cpu : cpu_names(architecture)) {
      if (cpu != "generic" && has_what_is_needed(architecture, *features_of_cpu(architecture, cpu)))
        candidates.push_back(std::move(cpu));
    }
  }
  for (const NamedTarget& known : kNamed) candidates.emplace_back(known.name);
  candidates.emplace_back("native");
  for (const Target& gpu : known_gpu_targets()) candidates.push_back(gpu.name);
  std::ranges::sort(candidates);
  const auto repeated = std::ranges::unique(candidates);
  candidates.erase(repeated.begin(), repeated.end());
  const std::string hint = did_you_mean(name, candidates);
  user_error(
      "unknown target '{}'{} `gantry targets` lists the usual ones for --target; other CPUs go by LLVM's "
      "names",
      name.substr(0, 64), hint.empty() ? ";" : hint);
}

size_t difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  auto missing = [](const auto& from, const auto& in) {
    return static_cast<size_t>(
        std::ranges::count_if(from, [&](const std::string& f) { return !has_feature(in, f); }));
  };
  return missing(a, b) + missing(b, a);
}

/// The target whose features are nearest to a board's. A CPU's own name wins unless its features are far off:
/// virtual machines report names that do not fit.
Target nearest_base(Architecture architecture, std::string_view cpu,
                    const std::vector<std::string>& features) {
  constexpr size_t kDoubt = 2;  // features switched off by firmware and hypervisors
  std::optional<Target> best;
  size_t least = 0;
  auto consider = [&](Target candidate, size_t handicap) {
    const size_t distance = difference(candidate.features, features) + handicap;
    if (!best || distance < least) {
      best = std::move(candidate);
      least = distance;
    }
  };
  const std::optional<std::vector<std::string>> known =
      cpu.empty() ? std::nullopt : features_of_cpu(architecture, cpu);
  if (known && cpu != "generic" && has_what_is_needed(architecture, *known)) {
    consider(*find_base(cpu), 0);
  }
  const size_t handicap = best ? kDoubt : 0;
  for (const NamedTarget& named : kNamed) {
    if (named.architecture == architecture && !named.cpu.empty()) consider(*find_base(named.name), handicap);
  }
  return *best;
}

}  // namespace

std::vector<Target> known_targets() {
  std::vector<Target> result;
  for (const NamedTarget& known : kNamed) {
    Target target = find_target(known.name);
    target.description = known.description;
    result.push_back(std::move(target));
  }
  for (Target& target : known_gpu_targets()) result.push_back(std::move(target));
  std::erase_if(result, [](const Target& target) { return !can_generate(target); });
  return result;
}

Target find_target(std::string_view name) {
  if (name.empty()) user_error("the target's name is empty; `gantry targets` lists the targets");
  if (names_gpu_target(name)) return find_gpu_target(name);
  // Names contain the signs of suffixes, so the longest part that names a target is the base.
  for (size_t end = name.size(); end != std::string_view::npos && end > 0;
       end = name.find_last_of("+-", end - 1)) {
    std::string_view base_name = name.substr(0, end), suffixes = name.substr(end);
    std::optional<Target> base;
    if (base_name == "native") {
      const HostCpu host = host_cpu();
      base = target_of_board(host.architecture == kArm ? "aarch64" : "x86_64", host.name, host.features);
    } else {
      base = find_base(base_name);
    }
    if (!base) continue;
    if (suffixes.empty()) return *base;
    Target changed = apply_suffixes(*base, suffixes, name);
    changed.name = normalised_name(*base, changed.features);
    return changed;
  }
  unknown_target(name);
}

Target target_of_board(std::string_view architecture, std::string_view cpu,
                       const std::vector<std::string>& reported) {
  if (architecture != "x86_64" && architecture != "aarch64") {
    user_error("the board's architecture is {}; gantry generates code for x86_64 and aarch64",
               architecture.substr(0, 32));
  }
  const Architecture arch = architecture == "aarch64" ? kArm : kX86;
  std::vector<std::string> features;
  for (std::string_view f : relevant_features(arch)) {
    if (has_feature(reported, f)) features.emplace_back(f);
  }
  // A feature whose needs the board lacks cannot be used.
  for (const std::string& f : std::vector<std::string>(features)) {
    for (const std::string& needed : add_feature(arch, {}, f)) {
      if (!has_feature(reported, needed)) std::erase(features, f);
    }
  }
  if (arch == kX86 && !has_feature(features, "sse4.2"))
    user_error("the board's CPU has no SSE4.2; gantry needs x86-64-v2 or better");
  if (arch == kArm && !has_feature(features, "neon"))
    user_error("the board's CPU has no NEON, which gantry needs");
  const Target base = nearest_base(arch, cpu, features);
  std::string name = normalised_name(base, features);
  return make_target(std::move(name),
                     fmt::format("a board with {}", cpu.empty() ? std::string_view("an unknown CPU") : cpu),
                     arch, base.cpu, std::move(features));
}

}  // namespace gantry
