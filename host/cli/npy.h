// NumPy's .npy files (format versions 1 to 3), read and written.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "host/cli/tensor_text.h"

namespace gantry::cli {

/// Reads an array of numbers in C or Fortran order, little-endian. bfloat16 is what ml_dtypes writes: "V2".
/// User errors name the file: not .npy, truncated, another byte order, a type that gantry does not know.
HostTensor read_npy(const std::filesystem::path& path);
/// As read_npy, from bytes; `name` stands in messages.
HostTensor parse_npy(std::span<const std::byte> bytes, const std::string& name);

/// Writes version 1.0 in C order; nothing is left if that fails.
void write_npy(const std::filesystem::path& path, const HostTensor& tensor);
std::string format_npy(const HostTensor& tensor);

}  // namespace gantry::cli
