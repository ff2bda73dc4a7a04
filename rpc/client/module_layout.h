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

/// How a module file falls into what travels each time (the manifest) and what the board may hold already.
struct ModuleLayout {
  std::uint64_t manifest_offset;
  std::uint64_t manifest_size;
  std::vector<ModuleSegment> segments;  ///< none empty
};

/// Throws Error(kRequest) naming `name` if the bytes are no module file.
ModuleLayout read_layout(std::span<const std::byte> file, const std::string& name);

}  // namespace gantry::rpc
#endif
