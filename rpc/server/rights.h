/// What the server may do beyond what its user may, and how it gives that up.
#ifndef GANTRY_RPC_SERVER_RIGHTS_H
#define GANTRY_RPC_SERVER_RIGHTS_H

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gantry::rpc {

/// A user of this machine, with all groups that it is in.
struct SystemUser {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::string home;
};

/// By /etc/passwd and /etc/group: a program that is linked statically has no other source. Throws
/// Error(kRequest) if the user is not there.
SystemUser find_user(const std::string& name);

/// Becomes that user, once and for all, if the process is root's. Capabilities stay as they are until
/// drop_capabilities(). Throws Error(kRequest) for anybody else but the user itself, Error(kBoard) if the
/// system refuses.
void become(const SystemUser& user);

/// A set of Linux's capabilities, a bit each.
using Capabilities = std::uint64_t;
/// Opening every file for reading: for key files that belong to another user than the server's.
inline constexpr Capabilities kReadAllFiles = Capabilities{1} << 2;

/// Gives up all capabilities but those of `kept` that the process has, which take effect only while a
/// CapabilityInEffect lives; programs that it starts have none. False where the kernel refuses.
bool drop_capabilities(Capabilities kept);
/// Gives up all of this process's own, for good: one that was root's is then no more than a user.
void drop_all_capabilities();

class CapabilityInEffect {
 public:
  /// Does nothing if the process does not have it, or has it in effect already.
  explicit CapabilityInEffect(Capabilities one);
  ~CapabilityInEffect();
  CapabilityInEffect(const CapabilityInEffect&) = delete;
  CapabilityInEffect& operator=(const CapabilityInEffect&) = delete;

 private:
  Capabilities raised_ = 0;
};

/// Keeps other processes of the same user from reading this one's memory, by tracing or through /proc.
void hide_memory();

}  // namespace gantry::rpc
#endif
