#include "host/codegen/module_file.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "device_runtime/src/module_format.h"
#include "host/support/error.h"
#include "host/support/output_file.h"
#include "host/support/spill_file.h"

namespace gantry {
namespace {

using Digest = std::array<uint8_t, 32>;
constexpr std::array<std::byte, 4096> kZeros{};
/// Of what lies on the disk, so much is in memory at a time.
constexpr size_t kPart = size_t{8} << 20;

/// SHA-256 of bytes given in parts.
class Sha256Stream {
 public:
  Sha256Stream() : context_(EVP_MD_CTX_new()) {
    internal_check(context_ != nullptr && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1,
                   "SHA-256 is not available");
  }
  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;
  ~Sha256Stream() { EVP_MD_CTX_free(context_); }
  void add(std::span<const std::byte> bytes) { EVP_DigestUpdate(context_, bytes.data(), bytes.size()); }
  Digest finish() {
    Digest digest{};
    EVP_DigestFinal_ex(context_, digest.data(), nullptr);
    return digest;
  }

 private:
  EVP_MD_CTX* context_;
};

Digest sha256(std::span<const std::byte> bytes) {
  Sha256Stream stream;
  stream.add(bytes);
  return stream.finish();
}

uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Calls `sink` with zeros up to `count` bytes.
template <typename Sink>
void pad(uint64_t count, Sink&& sink) {
  while (count > 0) {
    const size_t part = std::min<uint64_t>(count, kZeros.size());
    sink(std::span(kZeros.data(), part));
    count -= part;
  }
}

/// Calls `sink` with all bytes of a segment in order.
template <typename Sink>
void for_each_part(const SegmentData& segment, Sink&& sink) {
  uint64_t position = 0;
  for (const SegmentPiece& piece : segment.pieces) {
    internal_check(piece.offset >= position && piece.offset + piece.bytes.size() <= segment.size,
                   "module file: pieces of a segment overlap or leave it");
    pad(piece.offset - position, sink);
    for (auto rest = piece.bytes; !rest.empty(); release_pages(piece.owner)) {
      const auto part = rest.first(std::min(rest.size(), kPart));
      sink(part);
      rest = rest.subspan(part.size());
    }
    position = piece.offset + piece.bytes.size();
  }
  pad(segment.size - position, sink);
}

/// Sizes and digests; place_segments sets the offsets, which change nothing about the manifest's size.
void describe_segments(ModuleFile& module) {
  internal_check(module.segment_kinds.size() == module.segments.size(),
                 "module file: a segment without a kind");
  module.manifest.segments.clear();
  for (size_t i = 0; i < module.segments.size(); ++i) {
    const SegmentData& data = module.segments[i];
    Sha256Stream stream;
    for_each_part(data, [&](std::span<const std::byte> bytes) { stream.add(bytes); });
    const Digest digest = stream.finish();
    module.manifest.segments.emplace_back(0, data.size,
                                          module_format::Sha256(flatbuffers::span<const uint8_t, 32>(digest)),
                                          module.segment_kinds[i]);
  }
}

std::vector<std::byte> pack(const ModuleFile& module) {
  flatbuffers::FlatBufferBuilder builder;
  module_format::FinishManifestBuffer(builder, module_format::Manifest::Pack(builder, &module.manifest));
  auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {bytes, bytes + builder.GetSize()};
}

/// Sets the segments' offsets in the file; returns the file's size.
uint64_t place_segments(ModuleFile& module, uint64_t manifest_end) {
  uint64_t position = manifest_end;
  for (module_format::Segment& segment : module.manifest.segments) {
    const uint64_t offset = align_up(position, module_format::kSegmentAlignment);
    segment = module_format::Segment(offset, segment.size(), segment.digest(), segment.kind());
    position = offset + segment.size();
  }
  return position;
}

module_format::FileHeader make_header(std::span<const std::byte> manifest, uint64_t manifest_offset,
                                      uint64_t file_size) {
  module_format::FileHeader header{};
  std::memcpy(header.magic, module_format::kMagic, sizeof header.magic);
  header.version_major = module_format::kVersionMajor;
  header.version_minor = module_format::kVersionMinor;
  header.header_size = sizeof header;
  header.file_size = file_size;
  header.manifest_offset = manifest_offset;
  header.manifest_size = manifest.size();
  const Digest manifest_digest = sha256(manifest);
  std::memcpy(header.manifest_digest, manifest_digest.data(), manifest_digest.size());
  const Digest checksum =
      sha256(std::as_bytes(std::span(&header, 1)).first(offsetof(module_format::FileHeader, checksum)));
  std::memcpy(header.checksum, checksum.data(), checksum.size());
  return header;
}

/// Writes the whole file to `sink`.
template <typename Sink>
void write_all(ModuleFile& module, Sink&& sink) {
  using module_format::FileHeader;
  describe_segments(module);
  const uint64_t manifest_offset = align_up(sizeof(FileHeader), module_format::kManifestAlignment);
  const size_t manifest_size = pack(module).size();
  const uint64_t file_size = place_segments(module, manifest_offset + manifest_size);
  const std::vector<std::byte> manifest = pack(module);
  internal_check(manifest.size() == manifest_size, "module file: the manifest changed its size");
  internal_check(manifest_size <= module_format::kMaxManifestBytes,
                 "module file: the manifest takes {} bytes", manifest_size);

  const FileHeader header = make_header(manifest, manifest_offset, file_size);
  sink(std::as_bytes(std::span(&header, 1)));
  pad(manifest_offset - sizeof header, sink);
  sink(std::span(manifest));
  uint64_t position = manifest_offset + manifest_size;
  for (size_t i = 0; i < module.segments.size(); ++i) {
    pad(module.manifest.segments[i].offset() - position, sink);
    for_each_part(module.segments[i], sink);
    position = module.manifest.segments[i].offset() + module.segments[i].size;
  }
}

}  // namespace

uint64_t write_module(ModuleFile& module, const std::filesystem::path& path) {
  OutputFile file(path);
  write_all(module, [&](std::span<const std::byte> bytes) { file.write(bytes.data(), bytes.size()); });
  file.commit(/*durable=*/false);  // its digests tell
  return file.written();
}

std::vector<std::byte> serialize_module(ModuleFile& module) {
  std::vector<std::byte> result;
  write_all(module, [&](std::span<const std::byte> bytes) {
    result.insert(result.end(), bytes.begin(), bytes.end());
  });
  return result;
}

}  // namespace gantry
