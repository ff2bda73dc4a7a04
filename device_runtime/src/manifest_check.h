// The meaning of a manifest: everything that the FlatBuffers verifier cannot know.
#pragma once

#include <cstdint>
#include <span>

#include "device_runtime/src/status.h"
#include "module_generated.h"

namespace gantry::runtime {

/// Checks structure and meaning of a manifest's bytes, which must start at a multiple of 16 in memory.
/// Afterwards every index, dimension program, offset and count in it may be used as it stands. INVALID_MODULE
/// says what is wrong.
Result<const module_format::Manifest*> check_manifest(std::span<const std::byte> bytes);

/// Checks that the segments lie in a file of `file_size` bytes, after `first_offset`, in order.
Status check_segments_in_file(const module_format::Manifest& manifest, uint64_t first_offset,
                              uint64_t file_size);

}  // namespace gantry::runtime
