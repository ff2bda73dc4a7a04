// A lease's key in the folder from which a board's server takes keys.
#pragma once

#include <filesystem>

#include "rpc/security/key.h"

namespace gantry::farm {

/// The key lies there, for the board's server to read, while this lives; a signal that ends the process takes
/// it away, too.
class InstalledKey {
 public:
  /// Errors: those of write_file() and of std::filesystem::rename(); nothing is left then.
  InstalledKey(const std::filesystem::path& folder, const rpc::PskKey& key);
  InstalledKey(const InstalledKey&) = delete;
  InstalledKey& operator=(const InstalledKey&) = delete;
  ~InstalledKey();

 private:
  std::filesystem::path path_;
};

/// Removes the keys of leases that were killed, whole or half written: who has the board's lock may.
void remove_stale_keys(const std::filesystem::path& folder);

}  // namespace gantry::farm
