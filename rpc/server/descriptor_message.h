// Bytes with an open file beside them, between a session and its executor. Private to rpc/server.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// One sendmsg() of up to `size` bytes, with the descriptor `fd` beside them (-1: none). Returns as
/// sendmsg(), errno set; the receiver gets its own copy of the descriptor.
ssize_t send_with_descriptor(int socket, const void* data, std::size_t size, int fd, int flags);

/// One recvmsg() of up to `size` bytes; a descriptor that came along goes to `fd`. All others that came, and
/// that one too where `fd` is null, are closed. Returns as recvmsg(), errno set: EMFILE where this process
/// could not take all that came, and then keeps none. The descriptor is closed on exec.
ssize_t receive_with_descriptor(int socket, void* buffer, std::size_t size, UniqueFd* fd, int flags);

}  // namespace gantry::rpc
