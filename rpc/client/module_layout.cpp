#include "rpc/client/module_layout.h"

#include <cstring>

#include "device_runtime/src/module_format.h"
#include "module_generated.h"

namespace gantry::rpc {

ModuleLayout read_layout(std::span<const std::byte> file, const std::string& name) {
  const auto refuse = [&](const std::string& why) -> Error {
    return Error(ErrorKind::kRequest, name + " " + why + "; 'gantry compile' makes module files");
  };
  module_format::FileHeader header;
  if (file.size() < sizeof header) throw refuse("is too short for a module file");
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, module_format::kMagic, sizeof header.magic) != 0)
    throw refuse("is not a module file");
  if (header.version_major != module_format::kVersionMajor)
    throw refuse("has module format version " + std::to_string(header.version_major) +
                 ", this gantry reads " + std::to_string(module_format::kVersionMajor));
  if (header.file_size != file.size()) throw refuse("is truncated or has bytes appended");
  if (header.manifest_size > module_format::kMaxManifestBytes || header.manifest_offset > file.size() ||
      header.manifest_size > file.size() - header.manifest_offset)
    throw refuse("has a damaged header");

  const auto* bytes = reinterpret_cast<const std::uint8_t*>(file.data());
  std::vector<std::uint64_t> aligned((header.manifest_size + 7) / 8);
  std::memcpy(aligned.data(), bytes + header.manifest_offset, header.manifest_size);
  const auto* manifest_bytes = reinterpret_cast<const std::uint8_t*>(aligned.data());
  flatbuffers::Verifier verifier(manifest_bytes, header.manifest_size, 64, 1u << 24);
  if (!module_format::VerifyManifestBuffer(verifier)) throw refuse("has a damaged manifest");

  ModuleLayout layout{header.manifest_offset, header.manifest_size, {}};
  if (const auto* segments = module_format::GetManifest(manifest_bytes)->segments()) {
    for (const auto* segment : *segments) {
      if (segment->offset() > file.size() || segment->size() > file.size() - segment->offset())
        throw refuse("has a segment outside of the file");
      ModuleSegment& out =
          layout.segments.emplace_back(ModuleSegment{{}, segment->offset(), segment->size()});
      for (std::size_t i = 0; i < out.digest.size(); ++i) out.digest[i] = segment->digest().bytes()->Get(i);
    }
  }
  std::erase_if(layout.segments, [](const ModuleSegment& segment) { return segment.size == 0; });
  return layout;
}

}  // namespace gantry::rpc
