// Compiled kernels kept on disk, so that what was compiled once is not compiled again.
//
// A key is a digest of all that decides a kernel's object code: its loop nest as text, the target, and the
// build of the compiler (this program and LLVM). Entries are files named by their key, written beside their
// name and renamed, and carry a digest of their content: several processes may share a folder, one that is
// killed leaves nothing that anyone believes, and a damaged entry counts as absent. When they take more than
// the limit, those that were not used for the longest time go.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace gantry {

struct LoopKernel;
struct Target;

class KernelCache {
 public:
  using Key = std::array<uint8_t, 32>;
  static constexpr uint64_t kDefaultLimit = uint64_t{256} << 20;

  /// The folder is made when the first entry is written. Nothing here throws: a cache that cannot be read or
  /// written is an empty one.
  explicit KernelCache(std::filesystem::path folder, uint64_t limit_bytes = kDefaultLimit);

  /// GANTRY_CACHE_DIR, else gantry in XDG_CACHE_HOME, else ~/.cache/gantry; empty where the environment has
  /// none of them.
  static std::filesystem::path default_folder();

  /// `kind` tells results of different sorts apart ("object").
  static Key key_of(const LoopKernel& kernel, const Target& target, std::string_view kind);

  /// The bytes stored under the key, if they are there and whole. Thread-safe.
  std::optional<std::string> find(const Key& key) const;
  /// Thread-safe.
  void store(const Key& key, std::string_view bytes);
  /// Removes entries until the limit holds, and what killed processes left; where nothing was stored,
  /// nothing.
  void trim();

  struct Usage {
    uint64_t entries = 0, bytes = 0;
  };
  Usage usage() const;
  struct Cleared {
    Usage removed;
    uint64_t failed = 0;  ///< entries that cannot be removed
  };
  /// Removes the entries that there are; other processes may store more meanwhile.
  Cleared clear();

  const std::filesystem::path& folder() const { return folder_; }
  uint64_t limit_bytes() const { return limit_; }
  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }

 private:
  std::filesystem::path path_of(const Key& key) const;

  std::filesystem::path folder_;
  uint64_t limit_;
  std::atomic<bool> stored_ = false;
  mutable std::atomic<uint64_t> hits_ = 0, misses_ = 0;
};

}  // namespace gantry
