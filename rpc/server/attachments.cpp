#include "rpc/server/attachments.h"

#include <fcntl.h>

#include "rpc/server/cache.h"

namespace gantry::rpc {

void attach_segments(const wire::LoadModuleT& load, const SegmentCache& cache, Attachments& attachments) {
  for (const auto& segment : load.segments) {
    const DigestBytes digest = to_array(*segment->digest);
    UniqueFd file = cache.open(digest, segment->size);
    if (!file)
      throw Error(ErrorKind::kRetry, "segment " + to_hex(digest).substr(0, 16) +
                                         "… is not in the board's cache: upload the module (again)");
    attachments.push_back(std::move(file));
  }
}

Attachments duplicate(const Attachments& attachments) {
  Attachments copies;
  for (const UniqueFd& file : attachments)
    copies.emplace_back(file ? ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0) : -1);
  return copies;
}

}  // namespace gantry::rpc
