#include "rpc/server/source_address.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace gantry::rpc {

SourceAddress source_of(const sockaddr_storage& peer) {
  SourceAddress source;
  if (peer.ss_family == AF_INET) {
    sockaddr_in address{};
    std::memcpy(&address, &peer, sizeof address);
    source.bytes[10] = source.bytes[11] = 0xff;
    std::memcpy(&source.bytes[12], &address.sin_addr, 4);
  } else if (peer.ss_family == AF_INET6) {
    sockaddr_in6 address{};
    std::memcpy(&address, &peer, sizeof address);
    std::memcpy(source.bytes.data(), &address.sin6_addr, source.bytes.size());
    if (!IN6_IS_ADDR_V4MAPPED(&address.sin6_addr))
      std::fill(source.bytes.begin() + 8, source.bytes.end(), std::uint8_t{0});
  }
  return source;
}

}  // namespace gantry::rpc
