/// The directories of the cache, as descriptors: what lies in them is reached through these, so that nothing
/// that replaces a path later is followed.
#ifndef GANTRY_RPC_SERVER_CACHE_DIRECTORY_H
#define GANTRY_RPC_SERVER_CACHE_DIRECTORY_H

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// The cache's directory, made with mode 0700 if it is not there. The path itself may be a link that this
/// user (or root) made, say to a larger disk; what it leads to must belong to this user. Throws
/// Error(kRequest), which names --cache, if it cannot be used.
UniqueFd open_cache_directory(const std::filesystem::path& path);

/// The directory `name` in it, likewise; never through a link: no user makes one there.
UniqueFd open_cache_subdirectory(int directory, const std::string& name, const std::filesystem::path& parent);

/// A regular file of a directory.
struct DirectoryEntry {
  int directory;  ///< as given
  std::string name;
  struct stat status;
};
/// Links and all else that is no regular file are left out.
std::vector<DirectoryEntry> list_files(int directory);

}  // namespace gantry::rpc
#endif
