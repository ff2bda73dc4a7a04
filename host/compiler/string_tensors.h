// Tensors of strings as they travel to runtimes and boards: as bytes
// (device_runtime/builtins/packed_strings.h).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// The bytes of a constant of strings.
std::vector<std::byte> packed_strings(const ConstantData& constant);
std::vector<std::byte> packed_strings(const std::vector<std::string_view>& texts);
/// Views of so many strings in their bytes. User errors for bytes that are not of those.
std::vector<std::string_view> unpacked_strings(size_t elements, std::span<const std::byte> bytes);
/// A constant of them.
ConstantPtr string_constant(const Shape& shape, std::span<const std::byte> bytes);

}  // namespace gantry
