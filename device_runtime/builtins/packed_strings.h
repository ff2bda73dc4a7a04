// A tensor of strings as bytes, in which it travels: the length of each string (32 bits, little-endian), in
// row-major order, then all their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "device_runtime/src/builtins.h"

namespace gantry::runtime {

/// The strings in `packed`, of which they are views. INVALID_ARGUMENT where it is not of so many.
Result<std::vector<std::string_view>> unpack_strings(uint64_t elements, std::span<const std::byte> packed);
/// INVALID_ARGUMENT where a string has 4 GiB or more.
Result<std::vector<std::byte>> pack_strings(std::span<const std::string_view> texts);
/// The strings of a tensor of numbers. As SessionStrings::text, and pack_strings.
Result<std::vector<std::byte>> pack_numbers(const SessionStrings& strings, std::span<const uint64_t> numbers);

}  // namespace gantry::runtime
