// The module file in memory, and its writer. Layout: docs/module-format.md.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "module_generated.h"  // FlatBuffers object API of device_runtime/schema/module.fbs

namespace gantry {

/// Bytes of a segment; pieces are written one after another, each at the offset given, zeros between.
struct SegmentPiece {
  uint64_t offset = 0;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  ///< keeps `bytes` alive
};
struct SegmentData {
  uint64_t size = 0;
  std::vector<SegmentPiece> pieces;  ///< ascending offsets
};

struct ModuleFile {
  module_format::ManifestT manifest;  ///< `segments` are filled in by write_module (offset, size, digest)
  std::vector<module_format::SegmentKind> segment_kinds;
  std::vector<SegmentData> segments;
};

/// Fills in the manifest's segment table and writes the file beside its final name first, so that no failure
/// (full disk, interrupt) leaves a partial file. Returns its bytes. User error names the path.
uint64_t write_module(ModuleFile& module, const std::filesystem::path& path);
/// As write_module, in memory.
std::vector<std::byte> serialize_module(ModuleFile& module);

}  // namespace gantry
