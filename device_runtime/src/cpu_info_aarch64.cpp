// CPU features of AArch64: what the kernel says in the auxiliary vector, and the part number for the name.
#include "device_runtime/src/cpu_info.h"

#include <stdlib.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "device_runtime/src/small_file.h"

namespace gantry::runtime {
namespace {

struct PartName {
  unsigned implementer, part;
  const char* llvm_name;
  const char* brand;
};
constexpr PartName kParts[] = {
    {0x41, 0xd02, "cortex-a34", "Cortex-A34"},
    {0x41, 0xd03, "cortex-a53", "Cortex-A53"},
    {0x41, 0xd04, "cortex-a35", "Cortex-A35"},
    {0x41, 0xd05, "cortex-a55", "Cortex-A55"},
    {0x41, 0xd07, "cortex-a57", "Cortex-A57"},
    {0x41, 0xd08, "cortex-a72", "Cortex-A72"},
    {0x41, 0xd09, "cortex-a73", "Cortex-A73"},
    {0x41, 0xd0a, "cortex-a75", "Cortex-A75"},
    {0x41, 0xd0b, "cortex-a76", "Cortex-A76"},
    {0x41, 0xd0c, "neoverse-n1", "Neoverse N1"},
    {0x41, 0xd0d, "cortex-a77", "Cortex-A77"},
    {0x41, 0xd0e, "cortex-a76ae", "Cortex-A76AE"},
    {0x41, 0xd40, "neoverse-v1", "Neoverse V1"},
    {0x41, 0xd41, "cortex-a78", "Cortex-A78"},
    {0x41, 0xd42, "cortex-a78ae", "Cortex-A78AE"},
    {0x41, 0xd44, "cortex-x1", "Cortex-X1"},
    {0x41, 0xd46, "cortex-a510", "Cortex-A510"},
    {0x41, 0xd47, "cortex-a710", "Cortex-A710"},
    {0x41, 0xd48, "cortex-x2", "Cortex-X2"},
    {0x41, 0xd49, "neoverse-n2", "Neoverse N2"},
    {0x41, 0xd4b, "cortex-a78c", "Cortex-A78C"},
    {0x41, 0xd4c, "cortex-x1c", "Cortex-X1C"},
    {0x41, 0xd4d, "cortex-a715", "Cortex-A715"},
    {0x41, 0xd4e, "cortex-x3", "Cortex-X3"},
    {0x41, 0xd4f, "neoverse-v2", "Neoverse V2"},
    {0x41, 0xd80, "cortex-a520", "Cortex-A520"},
    {0x41, 0xd81, "cortex-a720", "Cortex-A720"},
    {0x41, 0xd82, "cortex-x4", "Cortex-X4"},
    {0x41, 0xd84, "neoverse-v3", "Neoverse V3"},
    {0x41, 0xd85, "cortex-x925", "Cortex-X925"},
    {0x41, 0xd87, "cortex-a725", "Cortex-A725"},
    {0x41, 0xd8e, "neoverse-n3", "Neoverse N3"},
    {0x46, 0x001, "a64fx", "A64FX"},
    {0x51, 0x001, "oryon-1", "Oryon"},
    {0x61, 0x022, "apple-m1", "Apple M1"},
    {0x61, 0x023, "apple-m1", "Apple M1"},
    {0x61, 0x024, "apple-m1", "Apple M1 Pro"},
    {0x61, 0x025, "apple-m1", "Apple M1 Pro"},
    {0x61, 0x028, "apple-m1", "Apple M1 Max"},
    {0x61, 0x029, "apple-m1", "Apple M1 Max"},
    {0x61, 0x032, "apple-m2", "Apple M2"},
    {0x61, 0x033, "apple-m2", "Apple M2"},
    {0x61, 0x034, "apple-m2", "Apple M2 Pro"},
    {0x61, 0x035, "apple-m2", "Apple M2 Pro"},
    {0x61, 0x038, "apple-m2", "Apple M2 Max"},
    {0x61, 0x039, "apple-m2", "Apple M2 Max"},
    {0x6d, 0xd49, "neoverse-n2", "Cobalt 100"},
    {0xc0, 0xac3, "ampere1", "AmpereOne"},
    {0xc0, 0xac4, "ampere1a", "AmpereOne"},
};

/// The number after "KEY\t: " in text of /proc/cpuinfo.
unsigned cpuinfo_field(const std::string& text, const char* key) {
  const size_t start = text.find(key);
  const size_t colon = start == std::string::npos ? start : text.find(':', start);
  return colon == std::string::npos ? 0
                                    : static_cast<unsigned>(strtoul(text.c_str() + colon + 1, nullptr, 0));
}

/// /proc/cpuinfo from what it says of that CPU on; all of it where it does not number them so.
std::string cpuinfo_of(int cpu, const std::string& root) {
  const std::string text = read_small_file(root + "/proc/cpuinfo");
  const size_t start = text.find("processor\t: " + std::to_string(cpu) + "\n");
  return start == std::string::npos ? text : text.substr(start);
}

}  // namespace

void name_aarch64_cpu(CpuInfo& info, const std::string& root) {
  const int cpu = info.core_cpus.front();
  const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
  unsigned implementer = 0, part = 0;
  const auto midr = read_small_file(folder + "/regs/identification/midr_el1");
  if (!midr.empty()) {
    const unsigned long long value = strtoull(midr.c_str(), nullptr, 0);
    implementer = value >> 24 & 0xff;
    part = value >> 4 & 0xfff;
  } else {
    const std::string text = cpuinfo_of(cpu, root);
    implementer = cpuinfo_field(text, "CPU implementer");
    part = cpuinfo_field(text, "CPU part");
  }
  info.brand = "AArch64 CPU";
  for (const PartName& known : kParts) {
    if (known.implementer != implementer || known.part != part) continue;
    info.llvm_name = known.llvm_name;
    info.brand = known.brand;
  }
}

#if defined(__aarch64__)
namespace {

struct HardwareBit {
  int word;  ///< 1: AT_HWCAP, 2: AT_HWCAP2
  int bit;
  const char* name;
};

// Bit numbers are the kernel's ABI (arch/arm64/include/uapi/asm/hwcap.h); older headers lack the newer ones.
constexpr HardwareBit kFeatures[] = {
    {1, 0, "fp-armv8"}, {1, 1, "neon"},      {1, 3, "aes"},   {1, 6, "sha2"},     {1, 7, "crc"},
    {1, 8, "lse"},      {1, 10, "fullfp16"}, {1, 12, "rdm"},  {1, 13, "jsconv"},  {1, 14, "complxnum"},
    {1, 15, "rcpc"},    {1, 17, "sha3"},     {1, 19, "sm4"},  {1, 20, "dotprod"}, {1, 22, "sve"},
    {1, 23, "fp16fml"}, {2, 1, "sve2"},      {2, 13, "i8mm"}, {2, 14, "bf16"},    {2, 10, "f32mm"},
    {2, 11, "f64mm"},
};

}  // namespace

void detect_cpu(CpuInfo& info, const std::string& root) {
  info.architecture = "aarch64";
  const unsigned long words[] = {0, getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  for (const HardwareBit& feature : kFeatures) {
    if (words[feature.word] >> feature.bit & 1) info.features.push_back(feature.name);
  }
  name_aarch64_cpu(info, root);
}
#endif

}  // namespace gantry::runtime
