#include "host/codegen/find_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "host/codegen/backends.h"
#include "host/codegen/cache_suffix.h"
#include "host/codegen/cpu_codegen.h"
#include "host/codegen/host_cpu.h"
#include "host/machine/cpu_features.h"
#include "host/machine/gpu_family.h"
#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry {
namespace {

Target make_target(std::string name, std::string description, const CpuFamily& family, std::string cpu,
                   std::vector<std::string> features) {
  Target t;
  t.name = std::move(name);
  t.description = std::move(description);
  t.family = &family;
  t.machine = family.machine(cpu, features);
  t.rank = 100 * family.vector_class(features) + static_cast<int>(features.size());
  t.cpu = std::move(cpu);
  t.features = std::move(features);
  return t;
}

/// The family that this is an old name of; null if it is none.
const CpuFamily* too_old_family(std::string_view name) {
  for (const CpuFamily* family : cpu_families()) {
    if (std::ranges::find(family->too_old, name) != family->too_old.end()) return family;
  }
  return nullptr;
}

bool has_what_is_needed(const CpuFamily& family, const std::vector<std::string>& features) {
  return has_feature(features, family.least);
}

[[noreturn]] void refuse_old(std::string_view name, const CpuFamily& family) {
  user_error("target {}: gantry needs a CPU with {}", name, family.least_text);
}

std::optional<std::vector<std::string>> features_of_cpu(const CpuFamily& family, std::string_view cpu) {
  return codegen_of(family).features_of_cpu(cpu);
}

/// The CPU with that name; null if there is none, or the name is one of features added to another.
const NamedCpu* find_named(const CpuFamily& family, std::string_view name) {
  const auto found = std::ranges::find(family.named, name, &NamedCpu::name);
  return found == family.named.end() || found->cpu.empty() ? nullptr : &*found;
}

/// A target without suffixes.
std::optional<Target> find_base(std::string_view name) {
  for (const CpuFamily* family : cpu_families()) {
    if (const NamedCpu* known = find_named(*family, name)) {
      return make_target(std::string(name), std::string(known->description), *family, std::string(known->cpu),
                         *features_of_cpu(*family, known->cpu));
    }
  }
  if (name == "generic" || too_old_family(name) != nullptr) return std::nullopt;
  for (const CpuFamily* family : cpu_families()) {
    if (auto features = features_of_cpu(*family, name)) {
      if (!has_what_is_needed(*family, *features)) refuse_old(name, *family);
      return make_target(std::string(name), fmt::format("the CPU that LLVM calls {}", name), *family,
                         std::string(name), std::move(*features));
    }
  }
  return std::nullopt;
}

std::string_view llvm_feature_name(const CpuFamily& family, std::string_view feature) {
  const auto found = std::ranges::find(family.aliases, feature, &FeatureAlias::written);
  return found == family.aliases.end() ? feature : found->feature;
}

/// As targets' names have it.
std::string_view written_feature_name(const CpuFamily& family, std::string_view feature) {
  const auto found = std::ranges::find(family.aliases, feature, &FeatureAlias::feature);
  return found == family.aliases.end() || !found->in_names ? feature : found->written;
}

/// The longest feature (or alias) that `text` begins with and that ends at a suffix sign.
std::string_view leading_feature(const CpuFamily& family, std::string_view text) {
  std::string_view best;
  auto consider = [&](std::string_view f) {
    const bool ends = text.size() == f.size() ||
                      (text.size() > f.size() && (text[f.size()] == '+' || text[f.size()] == '-'));
    if (text.starts_with(f) && ends && f.size() > best.size()) best = f;
  };
  for (std::string_view f : family.features) consider(f);
  for (const FeatureAlias& alias : family.aliases) consider(alias.written);
  return best;
}

/// Of a name that is meant for a GPU of the family.
Target find_gpu(const GpuFamily& family, std::string_view name) {
  const GpuTargetName parts = family.parse(name);
  return family.target(parts, find_target(parts.cpu.empty() ? family.usual_cpu(parts) : parts.cpu));
}

/// "base+added-removed", in the fixed order of features; the base alone where nothing differs.
std::string normalised_name(const Target& base, const std::vector<std::string>& features) {
  // Only what no other named feature implies is named.
  std::string name = base.name;
  std::vector<std::string> reached = base.features;
  const CpuFamily& family = family_of(base);
  const auto all = family.features;
  for (auto f = all.rbegin(); f != all.rend(); ++f) {
    if (!has_feature(features, *f) || has_feature(reached, *f)) continue;
    reached = add_feature(family, std::move(reached), *f);
    name += fmt::format("+{}", written_feature_name(family, *f));
  }
  for (std::string_view f : all) {
    if (has_feature(features, f) || !has_feature(reached, f)) continue;
    reached = remove_feature(family, std::move(reached), f);
    name += fmt::format("-{}", f);
  }
  return name;
}

/// Applies "+feature-feature+l2=256K…". A user error names a feature that the architecture does not have.
Target apply_suffixes(const Target& base, std::string_view suffixes, std::string_view whole) {
  const CpuFamily& family = family_of(base);
  std::vector<std::string> features = base.features;
  StatedCaches caches;
  while (!suffixes.empty()) {
    const bool adds = suffixes[0] == '+';
    suffixes.remove_prefix(1);
    if (adds && take_cache_size(suffixes, whole, caches)) continue;
    std::string_view written = leading_feature(family, suffixes);
    if (written.empty()) {
      user_error("target {}: unknown feature at '{}'; known: {}; and sizes of caches, as l1=32K and l2=1M",
                 whole, suffixes, fmt::join(family.features, ", "));
    }
    suffixes.remove_prefix(written.size());
    std::string_view feature = llvm_feature_name(family, written);
    features = adds ? add_feature(family, std::move(features), feature)
                    : remove_feature(family, std::move(features), feature);
  }
  if (!has_what_is_needed(family, features))
    user_error("target {}: gantry needs {}", whole, family.least_text);
  std::string name = normalised_name(base, features);
  Target changed =
      make_target(std::move(name), base.description + ", changed", family, base.cpu, std::move(features));
  const MachineModel usual = changed.machine;
  set_stated_caches(changed.machine, caches, whole);
  changed.name += cache_suffixes(changed.machine, usual);
  return changed;
}

[[noreturn]] void unknown_target(std::string_view name) {
  if (const CpuFamily* family = too_old_family(name)) refuse_old(name, *family);
  std::vector<std::string> candidates;
  for (const CpuFamily* family : cpu_families()) {
    for (std::string& cpu : codegen_of(*family).cpu_names()) {
      if (cpu != "generic" && has_what_is_needed(*family, *features_of_cpu(*family, cpu)))
        candidates.push_back(std::move(cpu));
    }
    for (const NamedCpu& known : family->named) candidates.emplace_back(known.name);
  }
  candidates.emplace_back("native");
  for (const GpuFamily* family : gpu_families()) {
    for (std::string& name : family->target_names()) candidates.push_back(std::move(name));
  }
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
Target nearest_base(const CpuFamily& family, std::string_view cpu, const std::vector<std::string>& features) {
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
      cpu.empty() ? std::nullopt : features_of_cpu(family, cpu);
  if (known && cpu != "generic" && has_what_is_needed(family, *known)) {
    consider(*find_base(cpu), 0);
  }
  const size_t handicap = best ? kDoubt : 0;
  for (const NamedCpu& named : family.named) {
    if (!named.cpu.empty()) consider(*find_base(named.name), handicap);
  }
  return *best;
}

}  // namespace

std::vector<Target> known_targets() {
  std::vector<Target> result;
  for (const CpuFamily* family : cpu_families()) {
    for (const NamedCpu& known : family->named) {
      Target target = find_target(known.name);
      target.description = known.description;
      result.push_back(std::move(target));
    }
  }
  for (const GpuFamily* family : gpu_families()) {
    for (const std::string& name : family->target_names()) result.push_back(find_target(name));
  }
  std::erase_if(result, [](const Target& target) { return !can_generate(target); });
  return result;
}

Target find_target(std::string_view name) {
  if (name.empty()) user_error("the target's name is empty; `gantry targets` lists the targets");
  for (const GpuFamily* family : gpu_families()) {
    if (family->has_name(name)) return find_gpu(*family, name);
  }
  // Names contain the signs of suffixes, so the longest part that names a target is the base.
  for (size_t end = name.size(); end != std::string_view::npos && end > 0;
       end = name.find_last_of("+-", end - 1)) {
    std::string_view base_name = name.substr(0, end), suffixes = name.substr(end);
    std::optional<Target> base;
    if (base_name == "native") {
      const HostCpu host = host_cpu();
      base = target_of_board(host.family->name, host.name, host.features);
    } else {
      base = find_base(base_name);
    }
    if (!base) continue;
    return suffixes.empty() ? *base : apply_suffixes(*base, suffixes, name);
  }
  unknown_target(name);
}

Target target_of_board(std::string_view architecture, std::string_view cpu,
                       const std::vector<std::string>& reported) {
  const CpuFamily* family = find_family(architecture);
  if (family == nullptr) {
    std::vector<std::string_view> known;
    for (const CpuFamily* other : cpu_families()) known.push_back(other->name);
    user_error("the board's architecture is {}; gantry generates code for {}", architecture.substr(0, 32),
               fmt::join(known, " and "));
  }
  std::vector<std::string> features;
  for (std::string_view f : family->features) {
    if (has_feature(reported, f)) features.emplace_back(f);
  }
  // A feature whose needs the board lacks cannot be used.
  for (const std::string& f : std::vector<std::string>(features)) {
    for (const std::string& needed : add_feature(*family, {}, f)) {
      if (!has_feature(reported, needed)) std::erase(features, f);
    }
  }
  if (!has_what_is_needed(*family, features))
    user_error("the board's CPU is not enough: gantry needs {}", family->least_text);
  const Target base = nearest_base(*family, cpu, features);
  std::string name = normalised_name(base, features);
  return make_target(std::move(name),
                     fmt::format("a board with {}", cpu.empty() ? std::string_view("an unknown CPU") : cpu),
                     *family, base.cpu, std::move(features));
}

}  // namespace gantry
