/// What goes to an executor beside a request: open descriptors of what the executor could not open itself.
#ifndef GANTRY_RPC_SERVER_ATTACHMENTS_H
#define GANTRY_RPC_SERVER_ATTACHMENTS_H

#include <vector>

#include "rpc/protocol/message.h"
#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

class SegmentCache;

/// First the memory with the request's data, if it has any; then, of a module that does not come whole, its
/// segments in the order of the request.
using Attachments = std::vector<UniqueFd>;

/// No request has more.
inline constexpr std::size_t kMaxAttachments = 1 + kMaxSegments;

/// Opens the segments that the module needs, for reading. Throws Error(kRetry) if the cache has one no
/// longer.
void attach_segments(const wire::LoadModuleT& load, const SegmentCache& cache, Attachments& attachments);

/// More descriptors of the same files.
Attachments duplicate(const Attachments& attachments);

}  // namespace gantry::rpc
#endif
