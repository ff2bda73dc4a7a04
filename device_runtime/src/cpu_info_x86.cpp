// CPU features of x86-64: CPUID, and XCR0 for what the kernel saves on a context switch.
#include "device_runtime/src/cpu_info.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace gantry::runtime {
namespace {

enum Register : uint8_t { kEax, kEbx, kEcx, kEdx };
enum Needs : uint8_t { kNothing, kAvxState, kAvx512State, kAmxState };

struct Leaf {
  unsigned leaf = 0, subleaf = 0;
  unsigned registers[4] = {};
};

// Names lie in the tables: a pointer to each would be the loader's work too.
struct FeatureBit {
  uint32_t leaf;
  uint8_t subleaf;
  Register where;
  uint8_t bit;
  Needs needs;
  char name[16];
};

constexpr FeatureBit kFeatures[] = {
    {1, 0, kEdx, 0, kNothing, "x87"},
    {1, 0, kEdx, 8, kNothing, "cx8"},
    {1, 0, kEdx, 15, kNothing, "cmov"},
    {1, 0, kEdx, 23, kNothing, "mmx"},
    {1, 0, kEdx, 24, kNothing, "fxsr"},
    {1, 0, kEdx, 25, kNothing, "sse"},
    {1, 0, kEdx, 26, kNothing, "sse2"},
    {1, 0, kEcx, 0, kNothing, "sse3"},
    {1, 0, kEcx, 1, kNothing, "pclmul"},
    {1, 0, kEcx, 9, kNothing, "ssse3"},
    {1, 0, kEcx, 12, kAvxState, "fma"},
    {1, 0, kEcx, 13, kNothing, "cx16"},
    {1, 0, kEcx, 19, kNothing, "sse4.1"},
    {1, 0, kEcx, 20, kNothing, "sse4.2"},
    {1, 0, kEcx, 20, kNothing, "crc32"},
    {1, 0, kEcx, 22, kNothing, "movbe"},
    {1, 0, kEcx, 23, kNothing, "popcnt"},
    {1, 0, kEcx, 25, kNothing, "aes"},
    {1, 0, kEcx, 27, kNothing, "xsave"},
    {1, 0, kEcx, 28, kAvxState, "avx"},
    {1, 0, kEcx, 29, kAvxState, "f16c"},
    {1, 0, kEcx, 30, kNothing, "rdrnd"},
    {7, 0, kEbx, 0, kNothing, "fsgsbase"},
    {7, 0, kEbx, 3, kNothing, "bmi"},
    {7, 0, kEbx, 5, kAvxState, "avx2"},
    {7, 0, kEbx, 8, kNothing, "bmi2"},
    {7, 0, kEbx, 16, kAvx512State, "avx512f"},
    {7, 0, kEbx, 16, kAvx512State, "evex512"},
    {7, 0, kEbx, 17, kAvx512State, "avx512dq"},
    {7, 0, kEbx, 18, kNothing, "rdseed"},
    {7, 0, kEbx, 19, kNothing, "adx"},
    {7, 0, kEbx, 21, kAvx512State, "avx512ifma"},
    {7, 0, kEbx, 23, kNothing, "clflushopt"},
    {7, 0, kEbx, 24, kNothing, "clwb"},
    {7, 0, kEbx, 28, kAvx512State, "avx512cd"},
    {7, 0, kEbx, 29, kNothing, "sha"},
    {7, 0, kEbx, 30, kAvx512State, "avx512bw"},
    {7, 0, kEbx, 31, kAvx512State, "avx512vl"},
    {7, 0, kEcx, 1, kAvx512State, "avx512vbmi"},
    {7, 0, kEcx, 6, kAvx512State, "avx512vbmi2"},
    {7, 0, kEcx, 8, kNothing, "gfni"},
    {7, 0, kEcx, 9, kAvxState, "vaes"},
    {7, 0, kEcx, 10, kAvxState, "vpclmulqdq"},
    {7, 0, kEcx, 11, kAvx512State, "avx512vnni"},
    {7, 0, kEcx, 12, kAvx512State, "avx512bitalg"},
    {7, 0, kEcx, 14, kAvx512State, "avx512vpopcntdq"},
    {7, 0, kEdx, 22, kAmxState, "amx-bf16"},
    {7, 0, kEdx, 23, kAvx512State, "avx512fp16"},
    {7, 0, kEdx, 24, kAmxState, "amx-tile"},
    {7, 0, kEdx, 25, kAmxState, "amx-int8"},
    {7, 1, kEax, 4, kAvxState, "avxvnni"},
    {7, 1, kEax, 5, kAvx512State, "avx512bf16"},
    {7, 1, kEax, 21, kAmxState, "amx-fp16"},
    {7, 1, kEax, 23, kAvxState, "avxifma"},
    {7, 1, kEdx, 4, kAvxState, "avxvnniint8"},
    {7, 1, kEdx, 5, kAvxState, "avxneconvert"},
    {0x80000001, 0, kEcx, 0, kNothing, "sahf"},
    {0x80000001, 0, kEcx, 5, kNothing, "lzcnt"},
    {0x80000001, 0, kEcx, 8, kNothing, "prfchw"},
    {0x80000001, 0, kEdx, 29, kNothing, "64bit"},
};

Leaf read_leaf(unsigned leaf, unsigned subleaf) {
  Leaf result{leaf, subleaf, {}};
  unsigned* r = result.registers;
  if (__get_cpuid_max(leaf & 0x80000000u, nullptr) >= leaf)
    __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
  return result;
}

uint64_t read_saved_state() {
  const Leaf leaf = read_leaf(1, 0);
  if (!(leaf.registers[kEcx] >> 27 & 1)) return 0;  // OSXSAVE
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

/// Linux lets a process use the tile registers only after it has asked for their state's space.
bool request_amx() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

struct ModelName {
  uint8_t family;
  uint8_t first_model, last_model;
  char name[16];
};

constexpr ModelName kIntelModels[] = {
    {6, 0x1a, 0x1f, "nehalem"},       {6, 0x25, 0x25, "westmere"},       {6, 0x2a, 0x2a, "sandybridge"},
    {6, 0x2c, 0x2c, "westmere"},      {6, 0x2d, 0x2d, "sandybridge"},    {6, 0x3a, 0x3a, "ivybridge"},
    {6, 0x3c, 0x3c, "haswell"},       {6, 0x3d, 0x3d, "broadwell"},      {6, 0x3e, 0x3e, "ivybridge"},
    {6, 0x3f, 0x3f, "haswell"},       {6, 0x45, 0x46, "haswell"},        {6, 0x47, 0x47, "broadwell"},
    {6, 0x4e, 0x4e, "skylake"},       {6, 0x4f, 0x4f, "broadwell"},      {6, 0x55, 0x55, "skylake-avx512"},
    {6, 0x56, 0x56, "broadwell"},     {6, 0x5c, 0x5c, "goldmont"},       {6, 0x5e, 0x5e, "skylake"},
    {6, 0x5f, 0x5f, "goldmont"},      {6, 0x66, 0x66, "cannonlake"},     {6, 0x6a, 0x6c, "icelake-server"},
    {6, 0x7a, 0x7a, "goldmont-plus"}, {6, 0x7d, 0x7e, "icelake-client"}, {6, 0x86, 0x86, "tremont"},
    {6, 0x8c, 0x8d, "tigerlake"},     {6, 0x8e, 0x8e, "skylake"},        {6, 0x8f, 0x8f, "sapphirerapids"},
    {6, 0x96, 0x96, "tremont"},       {6, 0x97, 0x97, "alderlake"},      {6, 0x9a, 0x9a, "alderlake"},
    {6, 0x9c, 0x9c, "tremont"},       {6, 0x9e, 0x9e, "skylake"},        {6, 0xa5, 0xa6, "skylake"},
    {6, 0xa7, 0xa7, "rocketlake"},    {6, 0xaa, 0xaa, "meteorlake"},     {6, 0xac, 0xac, "meteorlake"},
    {6, 0xad, 0xad, "graniterapids"}, {6, 0xaf, 0xaf, "sierraforest"},   {6, 0xb7, 0xb7, "raptorlake"},
    {6, 0xb6, 0xb6, "grandridge"},    {6, 0xba, 0xba, "raptorlake"},     {6, 0xbd, 0xbd, "lunarlake"},
    {6, 0xbe, 0xbe, "gracemont"},     {6, 0xbf, 0xbf, "raptorlake"},     {6, 0xcf, 0xcf, "emeraldrapids"},
};
constexpr ModelName kAmdModels[] = {
    {0x17, 0x00, 0x2f, "znver1"}, {0x17, 0x30, 0xff, "znver2"}, {0x19, 0x00, 0x0f, "znver3"},
    {0x19, 0x10, 0x1f, "znver4"}, {0x19, 0x20, 0x5f, "znver3"}, {0x19, 0x60, 0xaf, "znver4"},
    {0x1a, 0x00, 0xff, "znver5"},
};

const char* find_model(const ModelName* begin, const ModelName* end, unsigned family, unsigned model) {
  for (const ModelName* entry = begin; entry != end; ++entry) {
    if (entry->family == family && model >= entry->first_model && model <= entry->last_model)
      return entry->name;
  }
  return "";
}

std::string llvm_name(const CpuInfo& info) {
  const auto has = [&](const char* name) {
    return std::find(info.features.begin(), info.features.end(), name) != info.features.end();
  };
  const Leaf vendor_leaf = read_leaf(0, 0);
  char vendor[13] = {};
  memcpy(vendor, &vendor_leaf.registers[kEbx], 4);
  memcpy(vendor + 4, &vendor_leaf.registers[kEdx], 4);
  memcpy(vendor + 8, &vendor_leaf.registers[kEcx], 4);
  const unsigned signature = read_leaf(1, 0).registers[kEax];
  unsigned family = signature >> 8 & 15, model = signature >> 4 & 15;
  if (family == 6 || family == 15) model |= (signature >> 16 & 15) << 4;
  if (family == 15) family += signature >> 20 & 255;
  std::string name;
  if (strcmp(vendor, "GenuineIntel") == 0) {
    name = find_model(std::begin(kIntelModels), std::end(kIntelModels), family, model);
    // Three generations share one model number; the features tell them apart.
    if (name == "skylake-avx512" && has("avx512bf16")) name = "cooperlake";
    if (name == "skylake-avx512" && has("avx512vnni")) name = "cascadelake";
    // Virtual machines may show an older model than the features prove.
    const bool knows_amx = name == "sapphirerapids" || name == "emeraldrapids" || name == "graniterapids";
    if (has("amx-tile") && !knows_amx) name = "sapphirerapids";
  } else if (strcmp(vendor, "AuthenticAMD") == 0) {
    name = find_model(std::begin(kAmdModels), std::end(kAmdModels), family, model);
  }
  return name;
}

std::string brand_string() {
  std::string brand;
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    const Leaf part = read_leaf(leaf, 0);
    brand.append(reinterpret_cast<const char*>(part.registers), 16);
  }
  brand = brand.c_str();  // up to the first NUL
  while (!brand.empty() && brand.back() == ' ') brand.pop_back();
  const size_t start = brand.find_first_not_of(' ');
  return start == std::string::npos ? "" : brand.substr(start);
}

}  // namespace

void detect_cpu(CpuInfo& info, const std::string& /*root*/) {
  info.architecture = "x86_64";
  const uint64_t saved = read_saved_state();
  const bool avx = (saved & 0x6) == 0x6;
  const bool avx512 = avx && (saved & 0xe0) == 0xe0;
  const bool amx_hardware = read_leaf(7, 0).registers[kEdx] >> 24 & 1;
  const bool amx = amx_hardware && (saved & 0x60000) == 0x60000 && request_amx();
  const bool provided[] = {true, avx, avx512, amx};
  const unsigned subleaves_of_7 = read_leaf(7, 0).registers[kEax];
  for (const FeatureBit& feature : kFeatures) {
    if (feature.leaf == 7 && feature.subleaf > subleaves_of_7) continue;
    const Leaf leaf = read_leaf(feature.leaf, feature.subleaf);
    if ((leaf.registers[feature.where] >> feature.bit & 1) && provided[feature.needs]) {
      info.features.push_back(feature.name);
    }
  }
  info.llvm_name = llvm_name(info);
  info.brand = brand_string();
}

}  // namespace gantry::runtime
#endif
