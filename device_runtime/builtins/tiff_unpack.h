// How TIFF packs the rows of a strip.
#pragma once

#include <cstdint>
#include <span>

#include "device_runtime/builtins/images.h"

namespace gantry::runtime {

/// Fill all of `rows`. False: the bytes are damaged, or of fewer rows; what they have beyond is left out.
using UnpackTiff = bool (*)(ImageBytes packed, std::span<uint8_t> rows);
bool unpack_bits(ImageBytes packed, std::span<uint8_t> rows);
bool unpack_lzw(ImageBytes packed, std::span<uint8_t> rows);
bool unpack_deflate(ImageBytes packed, std::span<uint8_t> rows);

}  // namespace gantry::runtime
