#include "rpc/server/descriptor_message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace gantry::rpc {
namespace {

/// The kernel passes no more in one message (SCM_MAX_FD).
constexpr std::size_t kMostDescriptors = 253;

/// Whatever a message brings is in this process already: owned, so that nothing of it stays open by mistake.
void take_descriptors(msghdr& message, std::vector<UniqueFd>& received) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      received.emplace_back(fd);
    }
  }
}

}  // namespace

ssize_t send_with_descriptor(int socket, const void* data, std::size_t size, int fd, int flags) {
  iovec part{const_cast<void*>(data), size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return ::sendmsg(socket, &message, flags | MSG_NOSIGNAL);
}

ssize_t receive_with_descriptor(int socket, void* buffer, std::size_t size, UniqueFd* fd, int flags) {
  iovec part{buffer, size};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  if (count < 0) return count;
  std::vector<UniqueFd> received;
  take_descriptors(message, received);
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    errno = EMFILE;  // there is room for all that the kernel passes, so that this process can open no more
    return -1;
  }
  if (fd && !received.empty()) *fd = std::move(received.front());
  return count;
}

}  // namespace gantry::rpc
