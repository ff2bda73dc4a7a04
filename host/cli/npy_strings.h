// Strings in NumPy's files: elements of as many bytes each, "<U5" (five code points of 32 bits) or "|S5"
// (five bytes).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/cli/tensor_text.h"

namespace gantry::cli {

struct NpyStrings {
  size_t characters = 0;       ///< of an element, zeros behind the string counted
  size_t character_bytes = 1;  ///< 4 or 1
  bool big_endian = false;
  size_t element_bytes() const { return characters * character_bytes; }
};

/// What a type of the header says; nothing where it is none of strings.
std::optional<NpyStrings> strings_of_descr(std::string_view descr);
/// The bytes that a HostTensor of strings has, of elements as the file has them, in the same order.
std::vector<std::byte> strings_from_npy(const NpyStrings& type, size_t elements,
                                        std::span<const std::byte> data);
/// The elements of a HostTensor of strings as the file has them, and their type. User error for a string that
/// ends with a zero, which NumPy would not read back.
struct NpyElements {
  std::string descr, bytes;
};
NpyElements strings_to_npy(const HostTensor& tensor);

}  // namespace gantry::cli
