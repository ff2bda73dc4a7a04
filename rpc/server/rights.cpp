#include "rpc/server/rights.h"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "rpc/error.h"

namespace gantry::rpc {
namespace {

static_assert(kReadAllFiles == Capabilities{1} << CAP_DAC_READ_SEARCH);

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<FILE, CloseFile>;

std::optional<SystemUser> user_in_passwd(const std::string& name) {
  const File file(std::fopen("/etc/passwd", "re"));
  while (const passwd* entry = file ? ::fgetpwent(file.get()) : nullptr)
    if (name == entry->pw_name) return SystemUser{name, entry->pw_uid, entry->pw_gid, {}, entry->pw_dir};
  return std::nullopt;
}

std::vector<gid_t> groups_of(const SystemUser& user) {
  std::vector<gid_t> groups = {user.gid};
  const File file(std::fopen("/etc/group", "re"));
  while (const group* entry = file ? ::fgetgrent(file.get()) : nullptr)
    for (char** member = entry->gr_mem; *member; ++member)
      if (user.name == *member && entry->gr_gid != user.gid) groups.push_back(entry->gr_gid);
  return groups;
}

struct CapabilitySets {
  Capabilities effective = 0, permitted = 0;
};

CapabilitySets capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return {};
  return {data[0].effective | Capabilities{data[1].effective} << 32,
          data[0].permitted | Capabilities{data[1].permitted} << 32};
}

/// None are inheritable.
bool set_capabilities(const CapabilitySets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const auto half = [](Capabilities set, int index) { return static_cast<std::uint32_t>(set >> 32 * index); };
  __user_cap_data_struct data[2] = {};
  for (int i = 0; i < 2; ++i) data[i] = {half(sets.effective, i), half(sets.permitted, i), 0};
  return ::syscall(SYS_capset, &header, data) == 0;
}

/// False: the kernel refuses, although this process is root's.
bool empty_bounding_set() {
  bool emptied = true;
  for (int capability = 0; capability < 64; ++capability)
    if (::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1)
      emptied = ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0 && emptied;
  return emptied || ::geteuid() != 0;
}

}  // namespace

SystemUser find_user(const std::string& name) {
  auto user = user_in_passwd(name);
  if (!user)
    throw Error(ErrorKind::kRequest, "there is no user '" + name +
                                         "' in /etc/passwd for --user; 'useradd --system " + name +
                                         "' makes one");
  user->groups = groups_of(*user);
  return std::move(*user);
}

void become(const SystemUser& user) {
  if (::geteuid() != 0) {
    if (::geteuid() == user.uid) return;
    throw Error(ErrorKind::kRequest, "only root can serve as user '" + user.name +
                                         "': start the server as root, or as that user without --user");
  }
  // Root's capabilities would go with its user id; see drop_capabilities().
  ::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
  if (::setgroups(user.groups.size(), user.groups.data()) != 0 ||
      ::setresgid(user.gid, user.gid, user.gid) != 0 || ::setresuid(user.uid, user.uid, user.uid) != 0)
    throw Error(ErrorKind::kBoard,
                "the system does not let root become user '" + user.name + "': " + std::strerror(errno));
  ::prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
  ::setenv("HOME", user.home.c_str(), 1);
  ::setenv("USER", user.name.c_str(), 1);
  ::setenv("LOGNAME", user.name.c_str(), 1);
  ::unsetenv("XDG_CACHE_HOME");
}

bool drop_capabilities(Capabilities kept) {
  const Capabilities held = capabilities().permitted;
  set_capabilities({held, held});  // in effect, to change the bounding set
  bool dropped = empty_bounding_set();
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  return set_capabilities({0, held & kept}) && dropped;
}

void drop_all_capabilities() {
  set_capabilities({});
}

CapabilityInEffect::CapabilityInEffect(Capabilities one) {
  const CapabilitySets sets = capabilities();
  if ((sets.permitted & one) == 0 || (sets.effective & one) != 0) return;
  if (set_capabilities({sets.effective | one, sets.permitted})) raised_ = one;
}

CapabilityInEffect::~CapabilityInEffect() {
  if (raised_ == 0) return;
  const CapabilitySets sets = capabilities();
  set_capabilities({sets.effective & ~raised_, sets.permitted});
}

void hide_memory() {
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

}  // namespace gantry::rpc
