// The process in which modules run: what it may do, and what its session believes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <limits>

#include "tests/support/raw_session.h"
#include "tests/support/server_process.h"
#include "tests/support/system_calls.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using ::testing::HasSubstr;
using testing::RawSession;
using testing::ServerProcess;

constexpr std::uint32_t kId = 7;
constexpr int kExecutorSocket = 3;

std::uint32_t handle_of(const wire::ResponseT& answer) {
  const auto* failure = answer.body.AsFailure();
  EXPECT_TRUE(answer.body.AsModuleLoaded()) << (failure ? failure->message : "another answer");
  return answer.body.AsModuleLoaded() ? answer.body.AsModuleLoaded()->handle : 0;
}

std::string bytes_in_c(const Bytes& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += std::to_string(byte) + ",";
  return text;
}

/// A module that, when it runs, poses as its executor: it says that the run is finished, answers the next
/// request with `next`, and never returns.
std::vector<std::byte> impostor(const wire::ResponseT& next) {
  Bytes frames = encode_response(kId, make_response(wire::RunFinishedT{}));
  const Bytes more = encode_response(kId, next);
  frames.insert(frames.end(), more.begin(), more.end());
  return testing::build({.body = testing::with_system_calls(
                             "static const unsigned char frames[] = {" + bytes_in_c(frames) + "};" + "call(" +
                             std::to_string(SYS_write) + ", " + std::to_string(kExecutorSocket) +
                             ", (long)frames, sizeof frames, 0, 0, 0); for (;;) __asm__ volatile(\"\");")});
}

wire::ResponseT loaded_as(std::uint32_t handle) {
  wire::ModuleLoadedT module;
  module.handle = handle;
  module.target = "none";
  return make_response(std::move(module));
}

TEST(Handles, GoOnWhereTheLastExecutorStopped) {
  ServerProcess server;
  RawSession session(server.port(), kId);
  const auto good = testing::build({}), bad = testing::build({.body = "__builtin_trap();"});
  const std::uint32_t first = handle_of(session.load(good));
  EXPECT_EQ(handle_of(session.load(bad)), first + 1);
  EXPECT_TRUE(session.run(first + 1).body.AsFailure());
  EXPECT_EQ(handle_of(session.load(good)), first + 2) << "in another process";
}

TEST(Handles, AnExecutorCannotGiveOneAgain) {
  ServerProcess server;
  RawSession session(server.port(), kId);
  const auto good = testing::build({});
  const std::uint32_t first = handle_of(session.load(good));
  const std::uint32_t second = handle_of(session.load(impostor(loaded_as(first))));
  ASSERT_TRUE(session.run(second).body.AsRunFinished());
  const wire::ResponseT answer = session.load(good);
  ASSERT_TRUE(answer.body.AsFailure());
  EXPECT_EQ(answer.body.AsFailure()->kind, wire::FailureKind::Board);
  EXPECT_THAT(answer.body.AsFailure()->message, HasSubstr("a handle that is not new"));
  EXPECT_GT(handle_of(session.load(good)), second) << "the session goes on";
}

TEST(Handles, NoneIsLeftAfterTheLast) {
  ServerProcess server({"--deadline", "5"});
  RawSession session(server.port(), kId);
  const auto good = testing::build({});
  constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
  const std::uint32_t first = handle_of(session.load(impostor(loaded_as(kLast))));
  ASSERT_TRUE(session.run(first).body.AsRunFinished());
  EXPECT_EQ(handle_of(session.load(good)), kLast);
  const wire::ResponseT answer = session.load(good);
  ASSERT_TRUE(answer.body.AsFailure());
  EXPECT_EQ(answer.body.AsFailure()->kind, wire::FailureKind::Reconnect);
  EXPECT_THAT(answer.body.AsFailure()->message, HasSubstr("connect again"));
}

}  // namespace
}  // namespace gantry::rpc
