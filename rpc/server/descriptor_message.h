// Bytes with open files beside them, between a session and its executor. Private to rpc/server.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// A frame on its way, with descriptors beside it, in as many messages as these need. Nothing is owned.
class OutgoingFrame {
 public:
  /// A frame has a byte for every 253 descriptors, which is what the kernel takes beside one message.
  OutgoingFrame(std::span<const std::uint8_t> bytes, std::vector<int> descriptors)
      : bytes_(bytes), descriptors_(std::move(descriptors)) {}
  bool done() const { return sent_ == bytes_.size(); }
  /// One sendmsg(). Returns as that, errno set; the receiver gets its own copies of the descriptors.
  ssize_t send_some(int socket, int flags);

 private:
  std::span<const std::uint8_t> bytes_;
  std::vector<int> descriptors_;
  std::size_t sent_ = 0, descriptors_sent_ = 0;
};

/// One recvmsg() of up to `size` bytes; descriptors that came along are added to `kept` until that holds
/// `most`, and are closed on exec. All others that came are closed. Returns as recvmsg(), errno set: EMFILE
/// where this process could not take all that came, and then keeps none.
ssize_t receive_with_descriptors(int socket, void* buffer, std::size_t size, std::vector<UniqueFd>& kept,
                                 std::size_t most, int flags);

}  // namespace gantry::rpc
