#ifndef GANTRY_RPC_CLIENT_MODULE_LAYOUT_H
#define GANTRY_RPC_CLIENT_MODULE_LAYOUT_H

#include <span>
#include <string>
#include <vector>

#include "rpc/protocol/message.h"

namespace gantry::rpc {

struct ModuleSegment {
  DigestBytes digest;
  std::uint64_t offset;
  std::uint64_t size;
};

/// How a module file falls into what travels each time (the head) and what the board may hold already.
struct ModuleLayout {
  std::uint64_t head_size;              ///< header and manifest: bytes [0, head_size)
  std::vector<ModuleSegment> segments;  ///< by offset, disjoint, each behind the head
};

/// Throws Error(kRequest) naming `name` if the bytes are no module file.
ModuleLayout read_layout(std::span<const std::byte> file, const std::string& name);

}  // namespace gantry::rpc
#endif
