// Descriptors beside bytes: those that were asked for arrive, all others are closed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <vector>

#include "rpc/server/descriptor_message.h"

namespace gantry::rpc {
namespace {

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

class SocketPair {
 public:
  SocketPair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    near_.reset(ends[0]);
    far_.reset(ends[1]);
  }
  int receiver() const { return near_.get(); }
  int sender() const { return far_.get(); }
  /// One byte with that many copies of /dev/null beside it.
  void send(std::size_t count) const {
    const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const std::vector<int> descriptors(count, file.get());
    char byte = 'x';
    iovec part{&byte, 1};
    std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), count * sizeof(int));
    EXPECT_EQ(::sendmsg(far_.get(), &message, 0), 1);
  }

 private:
  UniqueFd near_, far_;
};

TEST(DescriptorMessage, KeepsTheOneThatWasAskedForAndClosesTheOthers) {
  const SocketPair sockets;
  for (const std::size_t sent : {1u, 2u, 5u, 253u}) {
    const std::size_t before = open_descriptors();
    sockets.send(sent);
    char byte = 0;
    std::vector<UniqueFd> kept;
    EXPECT_EQ(receive_with_descriptors(sockets.receiver(), &byte, 1, kept, 1, 0), 1);
    EXPECT_EQ(byte, 'x');
    ASSERT_EQ(kept.size(), 1u);
    EXPECT_EQ(::fcntl(kept[0].get(), F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(open_descriptors(), before + 1) << "of " << sent;
    kept.clear();
    EXPECT_EQ(open_descriptors(), before) << "of " << sent;
  }
}

TEST(DescriptorMessage, ClosesAllWhereNoneWasAskedFor) {
  const SocketPair sockets;
  for (const std::size_t sent : {1u, 2u, 5u}) {
    const std::size_t before = open_descriptors();
    sockets.send(sent);
    char byte = 0;
    std::vector<UniqueFd> kept;
    EXPECT_EQ(receive_with_descriptors(sockets.receiver(), &byte, 1, kept, 0, 0), 1);
    EXPECT_EQ(open_descriptors(), before) << "of " << sent;
  }
}

TEST(DescriptorMessage, OneThatDoesNotFitIntoTheProcessIsAnError) {
  const SocketPair sockets;
  sockets.send(3);
  const std::size_t before = open_descriptors();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = ::dup(sockets.receiver());  // the lowest number that is free
  ::close(next);
  rlimit lower = limit;
  lower.rlim_cur = static_cast<rlim_t>(next) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  char byte = 0;
  std::vector<UniqueFd> kept;
  errno = 0;
  EXPECT_EQ(receive_with_descriptors(sockets.receiver(), &byte, 1, kept, 9, 0), -1);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_TRUE(kept.empty());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DescriptorMessage, AFrameTakesAsManyMessagesAsItsDescriptorsNeed) {
  const SocketPair sockets;
  const std::size_t before = open_descriptors();
  for (const std::size_t count : {0u, 1u, 253u, 254u, 600u}) {
    std::vector<std::uint8_t> bytes(100);
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    std::vector<UniqueFd> files;
    std::vector<int> numbers;
    for (std::size_t i = 0; i < count; ++i) {
      files.emplace_back(::memfd_create("numbered", MFD_CLOEXEC));
      ASSERT_EQ(::ftruncate(files.back().get(), static_cast<off_t>(i)), 0);
      numbers.push_back(files.back().get());
    }
    OutgoingFrame frame(bytes, numbers);
    while (!frame.done()) ASSERT_GT(frame.send_some(sockets.sender(), 0), 0);
    files.clear();
    std::vector<std::uint8_t> arrived(bytes.size());
    std::vector<UniqueFd> kept;
    for (std::size_t done = 0; done < arrived.size();) {
      const ssize_t got = receive_with_descriptors(sockets.receiver(), arrived.data() + done,
                                                   arrived.size() - done, kept, 1000, 0);
      ASSERT_GT(got, 0);
      done += static_cast<std::size_t>(got);
    }
    EXPECT_EQ(arrived, bytes);
    ASSERT_EQ(kept.size(), count);
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(::lseek(kept[i].get(), 0, SEEK_END), static_cast<off_t>(i)) << "in order";
    kept.clear();
    EXPECT_EQ(open_descriptors(), before);
  }
}

}  // namespace
}  // namespace gantry::rpc
