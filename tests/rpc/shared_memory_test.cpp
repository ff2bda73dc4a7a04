// Memory that a session takes over from an executor, which it does not trust.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rpc/error.h"
#include "rpc/server/shared_memory.h"

namespace gantry::rpc {
namespace {

using ::testing::HasSubstr;

UniqueFd memory_of(off_t size, int seals) {
  UniqueFd memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(memory.get(), size), 0);
  EXPECT_EQ(::fcntl(memory.get(), F_ADD_SEALS, seals), 0);
  return memory;
}

std::string error_of(UniqueFd memory, std::uint64_t size) {
  try {
    SharedMemory(std::move(memory), size);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(SharedMemory, SealsAreCheckedBeforeTheSize) {
  // Without a seal the size says nothing: an executor may change it after it was read.
  EXPECT_THAT(error_of(memory_of(100, F_SEAL_GROW), 4096), HasSubstr("not sealed"));
  EXPECT_THAT(error_of(memory_of(100, F_SEAL_SHRINK), 4096), HasSubstr("wrong size"));
  EXPECT_EQ(error_of(memory_of(4096, F_SEAL_SHRINK), 4096), "no error");
}

}  // namespace
}  // namespace gantry::rpc
