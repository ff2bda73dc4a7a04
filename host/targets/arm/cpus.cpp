// The CPUs of AArch64 that have names here, and what is known of their caches.
#include "host/targets/arm/family.h"

namespace gantry::arm {
namespace {

/// The first ones run on every CPU with these features; the others are tuned for one CPU. A board of unknown
/// name is taken for the first of those with the nearest features: cores of less width stand behind others
/// that have them too.
constexpr NamedCpu kNamed[] = {
    {"aarch64", "generic", "any 64-bit Arm: NEON"},
    {"aarch64+dotprod", "", "64-bit Arm with dot products (most since Armv8.2)"},
    {"aarch64+dotprod+fp16", "", "64-bit Arm with dot products and half-precision arithmetic"},
    {"aarch64+bf16", "", "64-bit Arm with matrix products of bf16 (for --precision)"},
    {"cortex-a53", "cortex-a53", "Arm Cortex-A53 (Raspberry Pi 3)"},
    {"cortex-a55", "cortex-a55", "Arm Cortex-A55: dotprod, fp16"},
    {"cortex-a57", "cortex-a57", "Arm Cortex-A57 (Jetson Nano, Jetson TX2)"},
    {"cortex-a72", "cortex-a72", "Arm Cortex-A72 (Raspberry Pi 4)"},
    {"cortex-a76", "cortex-a76", "Arm Cortex-A76 (Raspberry Pi 5): dotprod, fp16"},
    {"cortex-a78", "cortex-a78", "Arm Cortex-A78 (Jetson Orin): dotprod, fp16"},
    {"cortex-x1", "cortex-x1", "Arm Cortex-X1: dotprod, fp16"},
    {"neoverse-n1", "neoverse-n1", "Arm Neoverse N1 (Graviton 2, Ampere Altra): dotprod, fp16"},
    {"neoverse-v1", "neoverse-v1", "Arm Neoverse V1 (Graviton 3): dotprod, fp16, bf16, i8mm"},
    {"neoverse-v2", "neoverse-v2", "Arm Neoverse V2 (Graviton 4, Grace): dotprod, fp16, bf16, i8mm"},
    {"neoverse-n2", "neoverse-n2", "Arm Neoverse N2: dotprod, fp16, bf16, i8mm"},
    {"cortex-a710", "cortex-a710", "Arm Cortex-A710, Cortex-A715: dotprod, fp16, bf16, i8mm"},
    {"cortex-a510", "cortex-a510", "Arm Cortex-A510: dotprod, fp16, bf16, i8mm"},
    {"ampere1", "ampere1", "AmpereOne: dotprod, fp16, bf16, i8mm"},
    {"oryon-1", "oryon-1", "Qualcomm Oryon (Snapdragon X): dotprod, bf16, i8mm"},
    {"apple-m1", "apple-m1", "Apple M1 under Linux: dotprod, fp16"},
    {"apple-m2", "apple-m2", "Apple M2 and later under Linux: dotprod, fp16, bf16, i8mm"},
};

constexpr CacheSizes kCaches[] = {
    {"cortex-a53", 32, 512},
    {"cortex-a55", 32, 128},
    {"cortex-a720", 64, 512},
    {"cortex-a725", 64, 512},
    {"cortex-a72", 32, 1024},
    {"cortex-a73", 32, 1024},
    {"cortex-a7", 64, 512},
    {"cortex-x", 64, 1024},
    {"neoverse-n", 64, 1024},
    {"neoverse-v", 64, 1024},
    {"ampere1", 64, 2048},
    {"apple-", 128, 4096},
    // A core's share of what two share, or four.
    {"cortex-a510", 32, 256},
    {"cortex-a520", 32, 256},
    {"oryon-1", 96, 3072},
};

}  // namespace

std::span<const NamedCpu> named_cpus() {
  return kNamed;
}

std::span<const CacheSizes> cache_sizes() {
  return kCaches;
}

}  // namespace gantry::arm
