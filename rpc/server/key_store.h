/// The key files of a server, which come, change and go while it runs.
#ifndef GANTRY_RPC_SERVER_KEY_STORE_H
#define GANTRY_RPC_SERVER_KEY_STORE_H

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rpc/security/server_keys.h"
#include "rpc/server/log.h"

namespace gantry::rpc {

/// Key files, and folders with one key file for each user: every file there whose name does not begin with a
/// dot. They are read whenever somebody asks: a few system calls a file, on every file system, where
/// notifications would miss what another machine or a changed link does.
class KeyStore {
 public:
  /// Reads them. Throws Error(kRequest), which names the file, if one is missing or no key, or if two have
  /// the same identity. A folder may be empty.
  explicit KeyStore(std::vector<std::filesystem::path> places);

  /// Reads them again. Files that are no keys are left out, and so are all but the one in use of an identity;
  /// both are reported once. A file that cannot be read for want of descriptors or the like stays as it was.
  void refresh(Log& log);
  /// After the process has given up rights: whether what was read could be read again. If not, refresh() does
  /// nothing from now on, and changes of the keys wait for another start of the server.
  bool can_be_read_again();
  /// The key files that belong to this user, which can read them therefore, whatever their mode.
  std::vector<std::filesystem::path> files_of(uid_t user) const;
  /// The keys as they were read last.
  const std::shared_ptr<ServerKeys>& keys() const { return keys_; }
  /// "key lab", "3 keys: alice, bob, carol"
  std::string names() const;

 private:
  struct Reading;
  static std::vector<Reading> read(const std::vector<std::filesystem::path>& places);
  void refuse_duplicates(std::vector<Reading>& readings) const;
  std::vector<ServerKeys::Entry> entries_of(std::vector<Reading>& readings);
  void report_changes(const std::vector<ServerKeys::Entry>& next, Log& log) const;
  void report_problems(const std::vector<Reading>& readings, Log& log);
  const ServerKeys::Entry* in_use(const PskKey& key) const;

  std::vector<std::filesystem::path> places_;
  std::shared_ptr<ServerKeys> keys_ = std::make_shared<ServerKeys>();
  KeySerial last_serial_ = 0;
  bool out_of_reach_ = false;
  std::map<std::filesystem::path, std::string> reported_;  // problems, by file
};

}  // namespace gantry::rpc
#endif
