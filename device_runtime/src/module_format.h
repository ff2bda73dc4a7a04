// The fixed header of a module file, and the limits that reader and writer agree on. See
// docs/module-format.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gantry::module_format {

/// First bytes of every module file: not text (top bit), and broken by line-ending conversion.
inline constexpr uint8_t kMagic[8] = {0x89, 'G', 'M', 'O', 'D', '\r', '\n', 0x1a};
/// A reader refuses other major versions; a newer minor version only adds what an older reader may ignore.
inline constexpr uint16_t kVersionMajor = 1;
inline constexpr uint16_t kVersionMinor = 0;

/// What a module may require of its runtime (Manifest.requires). "plan-2": symbols that are bound while the
/// plan runs; "control-flow": steps that run other plans; "specialized": variants that run for some sizes
/// alone; "equal-sizes": variants that run where some sizes are equal; "strings": tensors of strings, and
/// steps that call builtins on them; "images": steps that call builtins on images. A runtime may lack the
/// last two.
inline constexpr const char* kDataDependentShapes = "plan-2";
inline constexpr const char* kControlFlow = "control-flow";
inline constexpr const char* kSpecialized = "specialized";
inline constexpr const char* kEqualSizes = "equal-sizes";
inline constexpr const char* kStrings = "strings";
inline constexpr const char* kImages = "images";
inline constexpr const char* kFeatures[] = {kDataDependentShapes, kControlFlow, kSpecialized,
                                            kEqualSizes,          kStrings,     kImages};

/// Segments start at multiples of this in the file.
inline constexpr uint64_t kSegmentAlignment = 4096;
/// The manifest starts at a multiple of this.
inline constexpr uint64_t kManifestAlignment = 64;
/// Constants start at multiples of this in their segment, buffers in the workspace.
inline constexpr uint64_t kBufferAlignment = 64;

/// Limits beyond which a reader refuses a manifest.
inline constexpr uint64_t kMaxManifestBytes = 64u << 20;
inline constexpr uint32_t kMaxRank = 16;
inline constexpr uint32_t kMaxDimSteps = 4096;          ///< of one dimension expression
inline constexpr uint32_t kMaxDimStack = 64;            ///< values on the stack of one
inline constexpr uint32_t kMaxTableEntries = 1u << 20;  ///< of any list in the manifest

/// The 128 bytes at the start of a module file; all integers little-endian.
struct FileHeader {
  uint8_t magic[8];
  uint16_t version_major;
  uint16_t version_minor;
  uint32_t header_size;  ///< sizeof(FileHeader)
  uint64_t file_size;    ///< of the whole file, so that a truncated one is known at once
  uint64_t manifest_offset;
  uint64_t manifest_size;
  uint8_t manifest_digest[32];  ///< SHA-256 of the manifest's bytes
  uint8_t reserved[24];         ///< zero
  uint8_t checksum[32];         ///< SHA-256 of the bytes above
};
static_assert(sizeof(FileHeader) == 128 && offsetof(FileHeader, checksum) == 96);

}  // namespace gantry::module_format
