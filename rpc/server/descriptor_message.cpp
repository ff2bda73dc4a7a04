#include "rpc/server/descriptor_message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gantry::rpc {
namespace {

/// The kernel passes no more in one message (SCM_MAX_FD).
constexpr std::size_t kMostDescriptors = 253;
constexpr std::size_t kControlBytes = CMSG_SPACE(kMostDescriptors * sizeof(int));

/// Whatever a message brings is in this process already: owned, so that nothing of it stays open by mistake.
std::vector<UniqueFd> take_descriptors(msghdr& message) {
  std::vector<UniqueFd> received;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      received.emplace_back(fd);
    }
  }
  return received;
}

}  // namespace

ssize_t OutgoingFrame::send_some(int socket, int flags) {
  const std::size_t left = descriptors_.size() - descriptors_sent_, now = std::min(left, kMostDescriptors);
  // Each message has a byte at least: as long as descriptors follow, no more than that.
  const std::size_t size = left > now ? 1 : bytes_.size() - sent_;
  iovec part{const_cast<std::uint8_t*>(bytes_.data()) + sent_, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[kControlBytes] = {};
  if (now > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(now * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(now * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors_.data() + descriptors_sent_, now * sizeof(int));
  }
  const ssize_t count = ::sendmsg(socket, &message, flags | MSG_NOSIGNAL);
  if (count > 0) {
    sent_ += static_cast<std::size_t>(count);
    descriptors_sent_ += now;
  }
  return count;
}

ssize_t receive_with_descriptors(int socket, void* buffer, std::size_t size, std::vector<UniqueFd>& kept,
                                 std::size_t most, int flags) {
  iovec part{buffer, size};
  alignas(cmsghdr) char control[kControlBytes] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  if (count < 0) return count;
  std::vector<UniqueFd> received = take_descriptors(message);
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    errno = EMFILE;  // there is room for all that the kernel passes, so that this process can open no more
    return -1;
  }
  for (UniqueFd& file : received)
    if (kept.size() < most) kept.push_back(std::move(file));
  return count;
}

}  // namespace gantry::rpc
