// The CPUs of x86-64 that have names here, and what is known of their caches.
#include "host/targets/x86/family.h"

namespace gantry::x86 {
namespace {

/// Levels are named for their instruction set and run on every such CPU; the others are tuned for one CPU. A
/// board of unknown name is taken for the first of those with the nearest features.
constexpr NamedCpu kNamed[] = {
    {"x86-64-v2", "x86-64-v2", "any x86-64 since 2009: SSE4.2"},
    {"x86-64-v3", "x86-64-v3", "x86-64 since Haswell and Zen: AVX2, FMA"},
    {"x86-64-v4", "x86-64-v4", "x86-64 with AVX-512 (F, BW, CD, DQ, VL)"},
    {"haswell", "haswell", "Intel Haswell: AVX2"},
    {"skylake", "skylake", "Intel Skylake client: AVX2"},
    {"skylake-avx512", "skylake-avx512", "Intel Skylake server: AVX-512"},
    {"cascadelake", "cascadelake", "Intel Cascade Lake: AVX-512, VNNI"},
    {"cooperlake", "cooperlake", "Intel Cooper Lake: AVX-512, VNNI, BF16"},
    {"icelake-server", "icelake-server", "Intel Ice Lake server: AVX-512, VNNI"},
    {"sapphirerapids", "sapphirerapids", "Intel Sapphire Rapids: AVX-512, BF16, FP16, AMX"},
    {"graniterapids", "graniterapids", "Intel Granite Rapids: AVX-512, BF16, FP16, AMX with FP16"},
    {"tigerlake", "tigerlake", "Intel Tiger Lake: AVX-512, VNNI"},
    {"rocketlake", "rocketlake", "Intel Rocket Lake: AVX-512, VNNI"},
    {"alderlake", "alderlake", "Intel Alder Lake and later clients: AVX2, AVX-VNNI"},
    {"gracemont", "gracemont", "Intel Gracemont (N100 and the like): AVX2, AVX-VNNI"},
    {"sierraforest", "sierraforest", "Intel Sierra Forest: AVX2, AVX-VNNI"},
    {"znver1", "znver1", "AMD Zen: AVX2"},
    {"znver2", "znver2", "AMD Zen 2: AVX2"},
    {"znver3", "znver3", "AMD Zen 3: AVX2"},
    {"znver4", "znver4", "AMD Zen 4: AVX-512, VNNI, BF16"},
    {"znver5", "znver5", "AMD Zen 5: AVX-512, VNNI, BF16"},
};

constexpr CacheSizes kCaches[] = {
    {"sapphirerapids", 48, 2048},
    {"emeraldrapids", 48, 2048},
    {"graniterapids", 48, 2048},
    {"icelake-server", 48, 1280},
    {"icelake-client", 48, 512},
    {"rocketlake", 48, 512},
    {"tigerlake", 48, 1280},
    {"alderlake", 48, 1280},
    {"raptorlake", 48, 2048},
    {"skylake-avx512", 32, 1024},
    {"cascadelake", 32, 1024},
    {"cooperlake", 32, 1024},
    {"skylake", 32, 256},
    {"broadwell", 32, 256},
    {"haswell", 32, 256},
    {"znver5", 48, 1024},
    {"znver4", 32, 1024},
    {"znver", 32, 512},
    // A core's share of what four share.
    {"gracemont", 32, 512},
    {"sierraforest", 32, 1024},
    {"grandridge", 32, 1024},
};

}  // namespace

std::span<const NamedCpu> named_cpus() {
  return kNamed;
}

std::span<const CacheSizes> cache_sizes() {
  return kCaches;
}

}  // namespace gantry::x86
