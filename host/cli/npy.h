// NumPy's .npy files (format versions 1 to 3), read and written.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "host/cli/npy_strings.h"

namespace gantry::cli {

/// Reads an array of numbers or strings in C or Fortran order and either byte order. bfloat16 is what
/// ml_dtypes writes: "V2". User errors name the file: not .npy, truncated, a type that gantry does not know,
/// no way to read it. No more is read than its header says and a byte, of a pipe too.
HostTensor read_npy(const std::filesystem::path& path);
/// As read_npy, from bytes; `name` stands in messages.
HostTensor parse_npy(std::span<const std::byte> bytes, const std::string& name);

/// What a .npy file says before its data.
struct NpyHeader {
  rpc::ElementType type;
  std::vector<int64_t> shape;
  bool fortran_order = false;
  bool big_endian = false;
  size_t data_offset = 0;  ///< bytes before the data
  size_t data_bytes = 0;   ///< that the shape takes
  std::optional<NpyStrings> strings = std::nullopt;  ///< of such elements
};
/// Bytes of a file that tell how long its header is.
constexpr size_t kNpyPrefix = 12;
/// Where the data begins, from the first kNpyPrefix bytes or more of a file. User errors as read_npy, and for
/// a header of more than 1 MiB.
size_t npy_data_offset(std::span<const std::byte> bytes, const std::string& name);
/// From npy_data_offset() bytes or more. User errors as read_npy.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& name);
/// User error unless as many bytes follow the header as its shape takes; where more do, it does not matter
/// how many.
void check_npy_size(const NpyHeader& header, uint64_t bytes_of_data, const std::string& name);
/// The array in C order, little-endian, from its `data_bytes` bytes as the file has them.
HostTensor npy_tensor(const NpyHeader& header, std::vector<std::byte> data);

/// Writes version 1.0 in C order; nothing is left if that fails.
void write_npy(const std::filesystem::path& path, const HostTensor& tensor);
std::string format_npy(const HostTensor& tensor);

}  // namespace gantry::cli
