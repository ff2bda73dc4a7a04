// Module files: from a file, from memory, or from a manifest and segments that came by their own ways.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device_runtime/src/cpu_info.h"
#include "device_runtime/src/device.h"
#include "device_runtime/src/elf_loader.h"
#include "device_runtime/src/memory.h"
#include "device_runtime/src/sha256.h"
#include "device_runtime/src/status.h"

namespace gantry::module_format {
struct Manifest;
struct Variant;
}  // namespace gantry::module_format

namespace gantry::runtime {

namespace cuda {
class Program;
}

/// A segment that is not read from a module file.
struct SegmentSource {
  Sha256Digest digest{};
  SharedBytes bytes;
  bool verified = false;  ///< the caller has checked the digest, say when it stored the segment
};

/// A checked manifest with its segments; nothing is loaded yet. Copies share the bytes. Read-only,
/// thread-safe.
class ModuleContents {
 public:
  /// Maps a file. Every segment's digest is checked unless `check_digests` is false.
  /// Errors: IO_ERROR; INVALID_MODULE says what is wrong; INCOMPATIBLE for another major version.
  static Result<ModuleContents> open(const std::string& path, bool check_digests = true);
  /// As open, from bytes that lie at a multiple of 64 in memory.
  static Result<ModuleContents> from_bytes(SharedBytes bytes, bool check_digests = true);
  /// From parts. Segments that the manifest does not name are errors; missing ones only where they are
  /// needed.
  static Result<ModuleContents> from_parts(std::span<const std::byte> manifest,
                                           std::span<const SegmentSource> segments);

  const module_format::Manifest& manifest() const { return *manifest_; }
  /// The manifest's bytes as they stand in the file.
  std::span<const std::byte> manifest_bytes() const { return manifest_bytes_.bytes; }
  uint32_t segment_count() const { return static_cast<uint32_t>(segments_.size()); }
  /// Bytes of a segment; INVALID_MODULE if it has not been given.
  Result<std::span<const std::byte>> segment(uint32_t index) const;
  Sha256Digest segment_digest(uint32_t index) const;
  /// These bytes of a segment are not read for now: where they are a file's, this process's pages of them go.
  /// The file stays in memory as long as the system likes, for whoever reads it next.
  void release_pages(uint32_t index, std::span<const std::byte> bytes) const;

 private:
  SharedBytes manifest_bytes_;
  const module_format::Manifest* manifest_ = nullptr;
  std::vector<SharedBytes> segments_;
};

/// Index of the variant, none of those for some sizes alone, of that device with the highest rank that `cpu` can run and, for CUDA, a GPU of
/// `compute_capability` (10 * major + minor). INCOMPATIBLE names what the module has and what the machine
/// lacks.
Result<uint32_t> choose_variant(const module_format::Manifest& manifest, const CpuInfo& cpu,
                                module_format::Device device = module_format::Device::Cpu,
                                int compute_capability = 0);
/// Whether the module has any variant of that device.
bool has_variant_for(const module_format::Manifest& manifest, module_format::Device device);
/// Whether the variant takes another's place for some sizes.
bool is_specialized(const module_format::Variant& variant);
/// Indices of the variants that take that variant's place for some sizes, in the order in which they are asked.
std::vector<uint32_t> specialized_variants(const module_format::Manifest& manifest, uint32_t variant);
/// Indices of the segments that a variant and its specialized ones use, ascending.
std::vector<uint32_t> segments_of_variant(const module_format::Manifest& manifest, uint32_t variant);

/// A module ready to run on this machine. Shared by its sessions; immutable, thread-safe.
class Module {
 public:
  /// Picks the device's variant and loads its code. Errors: those of choose_variant and of the image loader;
  /// INVALID_MODULE where a kernel is not in the image.
  static Result<std::shared_ptr<const Module>> create(ModuleContents contents, const DeviceName& device = {},
                                                      const CpuInfo& cpu = cpu_info());
  /// ModuleContents::open and create.
  static Result<std::shared_ptr<const Module>> load(const std::string& path);

  const module_format::Manifest& manifest() const { return contents_.manifest(); }
  const module_format::Variant& variant() const { return *variant_; }
  const DeviceName& device() const { return device_; }
  const ModuleContents& contents() const { return contents_; }
  const CodeImage& image() const { return image_; }
  /// Entry of a kernel of the variant, by its index there.
  void* kernel(uint32_t index) const { return kernels_[index]; }
  /// A constant of the variant, by its index there.
  std::span<const std::byte> constant(uint32_t index) const { return constants_[index]; }
  /// The user's nodes of each step, separated by ", ".
  const std::string& origin(uint32_t step) const { return origins_[step]; }
  uint64_t weights_bytes() const { return weights_bytes_; }
  /// What lies on the GPU; null for the other devices.
  const std::shared_ptr<const cuda::Program>& gpu() const { return gpu_; }
  /// The same model for some sizes alone; the first of which the sizes fit runs in this one's place.
  std::span<const std::shared_ptr<const Module>> specialized() const { return specialized_; }
  /// Whether that is what this one is for, by the values of the symbols; those that are absent fit nothing.
  bool is_for(std::span<const std::optional<int64_t>> symbols) const;

 private:
  struct Gpu;
  /// `shared`: whose constants are this one's where both have them; null: of nobody.
  Status load_variant(uint32_t index, const Gpu& gpu, const Module* shared);
  Status bind_variant(const Module* shared);
  Status bind_constants(const Module* shared);
  /// Copies constants, those that are `own`, to huge pages where that pays: every run reads all of them, and with
  /// small pages translating addresses costs a good part of the time.
  void move_constants(const std::vector<uint32_t>& own);

  ModuleContents contents_;
  AlignedBuffer moved_constants_;
  const module_format::Variant* variant_ = nullptr;
  DeviceName device_;
  CodeImage image_;
  std::vector<void*> kernels_;
  std::vector<std::span<const std::byte>> constants_;
  std::vector<std::string> origins_;
  std::shared_ptr<const cuda::Program> gpu_;
  uint64_t weights_bytes_ = 0;
  std::vector<std::shared_ptr<const Module>> specialized_;
};

}  // namespace gantry::runtime
