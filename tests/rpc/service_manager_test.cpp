// A service manager that listens on a socket of its own.
#include "rpc/server/service_manager.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "rpc/server/unique_fd.h"

namespace gantry::rpc {
namespace {

/// `name` as in $NOTIFY_SOCKET: a path, or "@NAME" for one that is in no file system.
UniqueFd manager_at(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path);
  if (name[0] == '@') address.sun_path[0] = '\0';
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
            0);
  ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  return socket;
}

std::string heard_by(const UniqueFd& socket) {
  char text[256];
  const ssize_t size = ::recv(socket.get(), text, sizeof text, 0);
  return size < 0 ? "nothing" : std::string(text, static_cast<std::size_t>(size));
}

constexpr char kReady[] = "READY=1\nSTATUS=listening on 127.0.0.1:7453\n";

TEST(ServiceManager, HearsAtItsPathThatTheServerIsReady) {
  char folder[] = "/tmp/gantry_manager_XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/notify";
  const UniqueFd manager = manager_at(path);
  tell_service_manager_ready("listening on 127.0.0.1:7453");
  EXPECT_EQ(heard_by(manager), kReady);
  ::unlink(path.c_str());
  ::rmdir(folder);
}

TEST(ServiceManager, HearsItAtANameThatIsInNoFileSystem) {
  const UniqueFd manager = manager_at("@gantry-manager-" + std::to_string(::getpid()));
  tell_service_manager_ready("listening on 127.0.0.1:7453");
  EXPECT_EQ(heard_by(manager), kReady);
}

TEST(ServiceManager, ThatIsNotThereOrIsMisnamedDoesNoHarm) {
  for (const std::string& name : {std::string("/nonexistent/notify"), std::string("vsock:2:1"),
                                  std::string("@"), std::string(), std::string(200, '/')}) {
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    tell_service_manager_ready("listening");
  }
  ::unsetenv("NOTIFY_SOCKET");
  tell_service_manager_ready("listening");
}

}  // namespace
}  // namespace gantry::rpc
