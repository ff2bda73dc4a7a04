// What an executor answers with. Private to rpc/server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rpc/protocol/message.h"
#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// A response, and the memory with the data that it announces, if any.
struct Answer {
  wire::ResponseT response;
  UniqueFd payload;
};

/// A copy of `size` bytes in memory whose size nobody can change any more; none of no bytes. Throws
/// Error(kBoard), which names `what`, where the board has no memory for it.
UniqueFd sealed_copy(const std::byte* bytes, std::uint64_t size, const std::string& what);

}  // namespace gantry::rpc
