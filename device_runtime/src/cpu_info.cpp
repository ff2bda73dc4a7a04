#include "device_runtime/src/cpu_info.h"

#include <sched.h>
#include <stdlib.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "device_runtime/src/memory.h"
#include "device_runtime/src/small_file.h"

namespace gantry::runtime {
namespace {

std::string cpu_folder(const std::string& root, int cpu) {
  return root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
}

std::vector<int> find_allowed_cpus() {
  // Machines with more CPUs than a cpu_set_t holds need a larger set.
  for (int limit = 1024; limit <= (1 << 16); limit *= 4) {
    cpu_set_t* set = CPU_ALLOC(limit);
    if (set == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(limit);
    CPU_ZERO_S(size, set);
    std::vector<int> cpus;
    const bool known = sched_getaffinity(0, size, set) == 0;
    for (int cpu = 0; known && cpu < limit; ++cpu) {
      if (CPU_ISSET_S(cpu, size, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (!cpus.empty()) return cpus;
  }
  return {0};
}

/// Of each CPU, the first one that is on its core.
std::vector<int> find_same_core(const std::vector<int>& cpus, const std::string& root) {
  std::map<std::string, int> first;
  std::vector<int> result;
  for (int cpu : cpus) {
    std::string siblings = read_small_file(cpu_folder(root, cpu) + "/topology/thread_siblings_list");
    if (siblings.empty()) siblings = std::to_string(cpu);
    result.push_back(first.emplace(std::move(siblings), cpu).first->second);
  }
  return result;
}

/// One CPU a core, the fastest first.
std::vector<int> choose_core_cpus(const std::set<int>& cpus, const std::string& root) {
  std::vector<std::pair<uint32_t, int>> chosen;
  for (int cpu : cpus) chosen.emplace_back(cpu_capacity(cpu, root), cpu);
  std::stable_sort(chosen.begin(), chosen.end(), [](auto& a, auto& b) { return a.first > b.first; });
  std::vector<int> result;
  for (const auto& [capacity, cpu] : chosen) result.push_back(cpu);
  return result;
}

CpuInfo& detected() {
  static CpuInfo info = find_cpu_info(find_allowed_cpus(), "");
  return info;
}

}  // namespace

bool CpuInfo::has_feature(std::string_view feature) const {
  return std::binary_search(features.begin(), features.end(), feature);
}

int CpuInfo::core_cpu(int cpu) const {
  const auto at = std::lower_bound(allowed_cpus.begin(), allowed_cpus.end(), cpu);
  if (at == allowed_cpus.end() || *at != cpu) return cpu;
  return same_core_cpus[static_cast<size_t>(at - allowed_cpus.begin())];
}

const CpuInfo& cpu_info() {
  return detected();
}

CpuInfo find_cpu_info(std::vector<int> allowed_cpus, const std::string& root) {
  CpuInfo info;
  info.allowed_cpus = std::move(allowed_cpus);
  info.same_core_cpus = find_same_core(info.allowed_cpus, root);
  info.core_cpus = choose_core_cpus({info.same_core_cpus.begin(), info.same_core_cpus.end()}, root);
  info.physical_cores = static_cast<int>(info.core_cpus.size());
  detect_cpu(info, root);
  std::sort(info.features.begin(), info.features.end());
  info.caches = cpu_caches(info.core_cpus.front(), root);
  info.memory_bytes = usable_memory_bytes(root);
  return info;
}

void add_emulated_features(std::initializer_list<const char*> names) {
  std::vector<std::string>& features = detected().features;
  features.insert(features.end(), names.begin(), names.end());
  std::sort(features.begin(), features.end());
  features.erase(std::unique(features.begin(), features.end()), features.end());
}

std::vector<CacheInfo> cpu_caches(int cpu, const std::string& root) {
  std::vector<CacheInfo> caches;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = cpu_folder(root, cpu) + "/cache/index" + std::to_string(index);
    const auto level = read_small_number(folder + "/level");
    const std::string size = read_small_file(folder + "/size");
    if (!level || size.empty()) continue;
    uint64_t bytes = strtoull(size.c_str(), nullptr, 10);
    if (size.back() == 'K') bytes <<= 10;
    if (size.back() == 'M') bytes <<= 20;
    caches.push_back({static_cast<int>(*level), read_small_file(folder + "/type"), bytes,
                      read_small_file(folder + "/shared_cpu_list")});
  }
  return caches;
}

uint32_t cpu_capacity(int cpu, const std::string& root) {
  const std::string folder = cpu_folder(root, cpu);
  for (const char* file : {"/cpu_capacity", "/cpufreq/cpuinfo_max_freq"}) {
    const auto value = read_small_number(folder + file);
    if (value && *value > 0) return static_cast<uint32_t>(std::min<int64_t>(*value, 1 << 30));
  }
  return 1;
}

}  // namespace gantry::runtime
