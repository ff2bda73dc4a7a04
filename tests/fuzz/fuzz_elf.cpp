// Fuzzes the image loader: parsing for both architectures, and mapping what passes for the running one. No
// code runs.
//
// Strategies: bytes of a sound image flipped, overwritten with extreme values, removed, doubled; the same,
// but only in its headers, dynamic table and symbol tables (the first KiB and the last two). Usage: fuzz_elf
// [ROUNDS [SEED]]. The seed is printed; a crash or a hang is the failure.
#include <cstdio>
#include <random>

#include "device_runtime/src/elf_loader.h"
#include "tests/device_runtime/module_builder.h"
#include "tests/fuzz/mutate.h"

using namespace gantry::runtime;  // NOLINT: a program of its own

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? std::atol(argv[1]) : 10000;
  const unsigned long seed = argc > 2 ? std::strtoul(argv[2], nullptr, 0) : std::random_device()();
  std::printf("fuzz_elf: %ld rounds, seed %lu\n", rounds, seed);
  std::fflush(stdout);
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  const std::vector<std::byte> images[] = {testing::read_testdata("kernels_x86_64.so"),
                                           testing::read_testdata("kernels_aarch64.so")};
  long accepted = 0;
  for (long round = 0; round < rounds; ++round) {
    auto image = images[round % 2];
    const auto machine = round % 2 == 0 ? ElfMachine::kX86_64 : ElfMachine::kAArch64;
    switch (random() % 3) {
      case 0:
        gantry::fuzz::mutate(image, random);
        break;
      case 1:
        gantry::fuzz::overwrite(std::span(image).first(1024), random);
        break;
      default:
        gantry::fuzz::overwrite(std::span(image).last(2048), random);
        break;
    }
    accepted += parse_elf(image, machine, 4096).ok();
    if (machine == running_machine()) (void)CodeImage::load(image).ok();
  }
  std::printf("fuzz_elf: done, %ld of the changed images were still sound\n", accepted);
  return 0;
}
