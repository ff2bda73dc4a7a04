// Fuzzes the module reader and, where a mutated module passes its checks, binding it to memory. No kernel is
// run.
//
// Strategies, chosen at random for each round:
//   - bytes of the file flipped, overwritten with extreme values, removed, doubled;
//   - bytes of the manifest changed and all digests made right again, so that the checks behind them are
//   reached;
//   - bytes of the code image changed, likewise.
// Usage: fuzz_module [ROUNDS [SEED]]. The seed is printed; a crash or a hang is the failure.
#include <cstdio>
#include <cstring>
#include <random>

#include "device_runtime/src/module_format.h"
#include "device_runtime/src/session.h"
#include "device_runtime/src/sha256.h"
#include "tests/device_runtime/cuda_module.h"
#include "tests/device_runtime/module_builder.h"
#include "tests/fuzz/mutate.h"

using namespace gantry::runtime;  // NOLINT: a program of its own
using gantry::module_format::FileHeader;

namespace {

/// Makes the digests of the header right for what the file holds now.
void repair(std::vector<std::byte>& file) {
  FileHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  const auto manifest = std::span(file).subspan(header.manifest_offset, header.manifest_size);
  std::memcpy(header.manifest_digest, sha256(manifest).data(), 32);
  std::memcpy(file.data(), &header, sizeof header);
  const Sha256Digest checksum = sha256(std::span(file).first(offsetof(FileHeader, checksum)));
  std::memcpy(file.data() + offsetof(FileHeader, checksum), checksum.data(), 32);
}

/// Reads a file and goes on as far as it can without running its code.
bool try_module(std::span<const std::byte> file, bool check_digests, const DeviceName& device) {
  auto contents = ModuleContents::from_bytes(testing::share(file), check_digests);
  if (!contents.ok()) return false;
  auto module = Module::create(std::move(*contents), device);
  if (!module.ok()) return false;
  auto session = Session::create(*module, {.threads = 1, .memory_limit = 16 << 20});
  if (!session.ok()) return false;
  const int64_t shape[] = {3, 4};
  const bool given = (*session)->input_storage(0, shape).ok();
  return (*session)->prepare().ok() && given;
}

/// A module to start from, for a device.
struct Original {
  std::vector<std::byte> file;
  size_t manifest_size = 0, first_segment = 0;
  DeviceName device;
};

Original make_original(testing::ModuleBuilder builder, const DeviceName& device) {
  Original original;
  original.file = builder.write();
  original.manifest_size = builder.write_manifest().size();
  original.first_segment = builder.manifest.segments[0].offset();
  original.device = device;
  return original;
}

}  // namespace

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? std::atol(argv[1]) : 10000;
  const unsigned long seed = argc > 2 ? std::strtoul(argv[2], nullptr, 0) : std::random_device()();
  std::printf("fuzz_module: %ld rounds, seed %lu\n", rounds, seed);
  std::fflush(stdout);
  // The stand-in for a GPU's driver, which this program finds in its library search path.
  setenv("FAKE_CUDA_MEMORY", "16777216", 1);
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  const Original originals[] = {
      make_original(testing::symbolic_module(), {}),
      make_original(testing::cuda_module(), {gantry::module_format::Device::Cuda, 0}),
  };
  for (const Original& original : originals) {
    if (!try_module(original.file, true, original.device)) {
      std::printf("fuzz_module: the module for %s is not accepted even unchanged\n",
                  device_text(original.device).c_str());
      return 1;
    }
  }
  long accepted = 0;
  for (long round = 0; round < rounds; ++round) {
    const Original& original = originals[random() % 2];
    auto file = original.file;
    switch (random() % 3) {
      case 0:
        gantry::fuzz::mutate(file, random);
        accepted += try_module(file, true, original.device);
        break;
      case 1:
        gantry::fuzz::overwrite(std::span(file).subspan(sizeof(FileHeader), original.manifest_size), random);
        repair(file);
        accepted += try_module(file, true, original.device);
        break;
      default:
        gantry::fuzz::overwrite(std::span(file).subspan(original.first_segment), random);
        accepted += try_module(file, false, original.device);
        break;
    }
  }
  std::printf("fuzz_module: done, %ld of the changed modules were still sound\n", accepted);
  return 0;
}
