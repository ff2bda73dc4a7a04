// NumPy's .npz files: zip archives of .npy files, read and written.
// Why libzip: it reads zip64 and compares checksums by itself, and is kept as a library of its own; Debian's
// minizip 1.1 is a sample of zlib's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "host/cli/tensor_text.h"

namespace gantry::cli {

/// An open archive, read by libzip: stored and deflated members, zip64. User errors name the file and the
/// member, and call what cannot be read by its name: encrypted, damaged (CRC), another compression.
class NpzFile {
 public:
  explicit NpzFile(std::filesystem::path path);
  ~NpzFile();
  NpzFile(const NpzFile&) = delete;
  NpzFile& operator=(const NpzFile&) = delete;

  /// Names as numpy.load gives them: without ".npy"; members of other kinds are left out.
  const std::vector<std::string>& members() const { return names_; }
  bool has(const std::string& member) const;

  /// Called with an array's type and shape before memory is reserved for it; throws to refuse it.
  using Accept = std::function<void(const rpc::ElementType&, const std::vector<int64_t>&)>;
  /// A member by its name of members(). What it unpacks to is bounded by its header, by the size that the
  /// archive states, and by what compression can make of its bytes.
  HostTensor read(const std::string& member, const Accept& accept) const;

 private:
  std::filesystem::path path_;
  void* archive_ = nullptr;         ///< zip_t
  std::vector<std::string> names_;  ///< of the arrays
  std::vector<uint64_t> entries_;   ///< their indices in the archive
};

struct NamedTensor {
  std::string name;
  const HostTensor* tensor;
};
/// A user error where this gantry is built without libzip.
void expect_npz_support(const std::filesystem::path& path);
/// Writes stored members, as numpy.savez does; nothing is left if that fails.
void write_npz(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

}  // namespace gantry::cli
