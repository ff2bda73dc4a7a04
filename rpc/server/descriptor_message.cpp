#include "rpc/server/descriptor_message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstring>
#include <utility>

namespace gantry::rpc {

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
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  if (count <= 0) return count;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof received);
    UniqueFd owned(received);
    if (fd) *fd = std::move(owned);
  }
  return count;
}

}  // namespace gantry::rpc
