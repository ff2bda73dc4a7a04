// Messages of kinds that only a later version knows: they cost neither end its session.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rpc/client/client.h"
#include "tests/support/fake_board.h"
#include "tests/support/frame_peer.h"
#include "tests/support/server_process.h"

namespace gantry::rpc {
namespace {

using ::testing::AllOf;
using testing::FakeBoard;
using testing::FramePeer;
using ::testing::HasSubstr;
using testing::ServerProcess;

constexpr std::uint8_t kLater = 200;  ///< of a union that has some ten members today
const std::vector<std::byte> kData(5000, std::byte{7});

Bytes frame_of(flatbuffers::FlatBufferBuilder& builder, std::uint32_t id, FrameType type) {
  const FrameHeaderBytes header = encode_header({type, id, builder.GetSize()});
  Bytes frame(kFrameHeaderSize + builder.GetSize());
  std::copy(header.begin(), header.end(), frame.begin());
  std::copy_n(builder.GetBufferPointer(), builder.GetSize(), frame.begin() + kFrameHeaderSize);
  return frame;
}

Bytes later_request(std::uint32_t id) {
  flatbuffers::FlatBufferBuilder builder;
  const auto body = wire::CreatePing(builder).Union();
  builder.Finish(wire::CreateRequest(builder, static_cast<wire::RequestBody>(kLater), body));
  return frame_of(builder, id, FrameType::kRequest);
}

Bytes later_response(std::uint32_t id, FrameType type) {
  flatbuffers::FlatBufferBuilder builder;
  const auto body = wire::CreateDone(builder).Union();
  builder.Finish(wire::CreateResponse(builder, static_cast<wire::ResponseBody>(kLater), body));
  return frame_of(builder, id, type);
}

TEST(UnknownRequests, AreAnsweredAsUnsupportedWithTheirDataSkipped) {
  ServerProcess server;
  FramePeer peer(server.port());
  peer.greet();
  const std::uint32_t id = peer.next_id();
  peer.send(later_request(id));
  peer.send_data(id, kData);
  peer.send_data(id, kData);
  const wire::ResponseT response = peer.response_to(id);
  const auto* failure = response.body.AsFailure();
  ASSERT_NE(failure, nullptr);
  EXPECT_TRUE(failure->unsupported);
  EXPECT_EQ(failure->kind, wire::FailureKind::Request);
  EXPECT_THAT(failure->message, AllOf(HasSubstr("kind 200"), HasSubstr("its version is 0.")));
  EXPECT_TRUE(peer.ask(wire::PingT{}).body.AsPong()) << "the session lives";
}

TEST(UnknownRequests, ThatComeFirstAreToldSo) {
  ServerProcess server;
  FramePeer peer(server.port());
  peer.send(later_request(1));
  const auto frame = peer.receive();
  ASSERT_TRUE(frame);
  const wire::ResponseT response = decode_response(frame->payload);
  const auto* failure = response.body.AsFailure();
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->kind, wire::FailureKind::Request);
  EXPECT_FALSE(peer.receive());
}

TEST(UnknownRequests, ASecondHelloIsRefusedAndTheSessionLives) {
  ServerProcess server;
  FramePeer peer(server.port());
  peer.greet();
  wire::HelloT hello;
  hello.version_min = hello.version_max = kProtocolVersion;
  const wire::ResponseT response = peer.ask(std::move(hello));
  const auto* failure = response.body.AsFailure();
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->kind, wire::FailureKind::Request);
  EXPECT_THAT(failure->message, HasSubstr("second hello"));
  EXPECT_TRUE(peer.ask(wire::PingT{}).body.AsPong());
}

TEST(UnknownAnswers, OfANewerBoardAskForAnUpdateAndTheirDataAreSkipped) {
  FakeBoard board([](FramePeer& peer) {
    const std::uint32_t id = FakeBoard::next_request(peer);
    peer.send(later_response(id, FrameType::kResponse));
    peer.send_data(id, kData);
    FakeBoard::answer(peer, wire::PongT{});
  });
  try {
    board.client->ping();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), 2) << "no bug";
    EXPECT_TRUE(error.unsupported());
    EXPECT_THAT(error.what(), AllOf(HasSubstr("board pi:7453"), HasSubstr("update gantry")));
  }
  EXPECT_GT(board.client->ping().count(), 0) << "the session lives";
}

TEST(UnknownAnswers, AreIgnoredWhereTheyTellOfProgress) {
  FakeBoard board([](FramePeer& peer) {
    const std::uint32_t id = FakeBoard::next_request(peer);
    peer.send(later_response(id, FrameType::kProgress));
    peer.send(encode_response(id, make_response(wire::PongT{})));
  });
  EXPECT_GT(board.client->ping().count(), 0);
}

TEST(UnknownAnswers, FailuresOfALaterKindAreTheBoards) {
  FakeBoard board([](FramePeer& peer) {
    wire::FailureT failure;
    failure.kind = static_cast<wire::FailureKind>(kLater);
    failure.message = "the moon is full";
    peer.send(encode_response(FakeBoard::next_request(peer), make_response(std::move(failure))));
    wire::FailureT unsupported;
    unsupported.kind = wire::FailureKind::Request;
    unsupported.message = "what?";
    unsupported.unsupported = true;
    peer.send(encode_response(FakeBoard::next_request(peer), make_response(std::move(unsupported))));
  });
  const auto failure = [&] {
    try {
      board.client->ping();
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorKind::kBug, "nothing failed");
  };
  const Error first = failure();
  EXPECT_EQ(first.kind(), ErrorKind::kBoard);
  EXPECT_THAT(first.what(), HasSubstr("the moon is full"));
  EXPECT_FALSE(first.unsupported());
  EXPECT_TRUE(failure().unsupported());
}

}  // namespace
}  // namespace gantry::rpc
