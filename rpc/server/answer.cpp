#include "rpc/server/answer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace gantry::rpc {

UniqueFd sealed_copy(const std::byte* bytes, std::uint64_t size, const std::string& what) {
  if (size == 0) return UniqueFd();
  const auto no_memory = [&] {
    return Error(ErrorKind::kBoard, "the board has no memory for " + what + ": " + std::strerror(errno));
  };
  UniqueFd memory(::memfd_create("gantry-answer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) throw no_memory();
  for (std::uint64_t done = 0; done < size;) {
    const ssize_t count = ::write(memory.get(), bytes + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw no_memory();
    done += static_cast<std::uint64_t>(count);
  }
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) throw no_memory();
  return memory;
}

}  // namespace gantry::rpc
