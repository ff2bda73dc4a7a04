// What clients and boards of old versions said, to a board and a client of this one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "rpc/client/client.h"
#include "tests/support/fake_board.h"
#include "tests/support/frame_peer.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using ::testing::ElementsAre;
using testing::FakeBoard;
using testing::FramePeer;
using testing::ServerProcess;

constexpr float kInput[] = {1, 2, 3, 4}, kOutput[] = {3, 5, 7, 9};

/// A message as it was sent: progress before it, and the data behind it.
struct Message {
  std::vector<testing::Frame> frames;
  Bytes payload;  ///< of the request or response
};

/// By request.
std::vector<Message> recorded(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(GANTRY_RECORDINGS) / "e09aa77" / name;
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(bytes.empty()) << path;
  std::vector<Message> messages;
  std::uint32_t last_id = 0;
  for (std::size_t at = 0; at + kFrameHeaderSize <= bytes.size();) {
    FrameHeaderBytes header;
    std::memcpy(header.data(), &bytes[at], header.size());
    testing::Frame frame{decode_header(header), {}};
    at += kFrameHeaderSize;
    frame.payload.assign(&bytes[at], &bytes[at] + frame.header.length);
    at += frame.header.length;
    if (frame.header.id != last_id) messages.emplace_back();
    last_id = frame.header.id;
    if (frame.header.type == FrameType::kRequest || frame.header.type == FrameType::kResponse)
      messages.back().payload = frame.payload;
    messages.back().frames.push_back(std::move(frame));
  }
  return messages;
}

void send(FramePeer& peer, const Message& message, std::uint32_t id) {
  for (const testing::Frame& frame : message.frames) {
    peer.send(encode_header({frame.header.type, id, frame.header.length}));
    peer.send(frame.payload);
  }
}

/// Whether the answer to such a request is what that version's client expects.
void check_answer(FramePeer& peer, const wire::RequestT& request, const wire::ResponseT& answer) {
  const wire::FailureT* failure = answer.body.AsFailure();
  ASSERT_EQ(failure, nullptr) << failure->message;
  switch (request.body.type) {
    case wire::RequestBody::Hello:
      EXPECT_EQ(answer.body.AsWelcome()->version, 1);
      break;
    case wire::RequestBody::Ping:
      EXPECT_TRUE(answer.body.AsPong());
      break;
    case wire::RequestBody::GetBoardInfo:
      EXPECT_FALSE(answer.body.AsBoardDescription()->architecture.empty());
      break;
    case wire::RequestBody::QuerySegments:
      EXPECT_THAT(answer.body.AsSegmentStates()->held, ElementsAre(0, 0));
      break;
    case wire::RequestBody::LoadModule:
      EXPECT_EQ(answer.body.AsModuleLoaded()->handle, 1u) << "the requests that follow say 1";
      EXPECT_EQ(answer.body.AsModuleLoaded()->outputs.size(), 1u);
      break;
    case wire::RequestBody::Run:
      EXPECT_GT(answer.body.AsRunFinished()->nanoseconds, 0);
      break;
    case wire::RequestBody::GetOutput: {
      ASSERT_TRUE(answer.body.AsOutput());
      const Bytes data = peer.receive_data(answer.body.AsOutput()->byte_size);
      ASSERT_EQ(data.size(), sizeof kOutput);
      EXPECT_EQ(std::memcmp(data.data(), kOutput, sizeof kOutput), 0);
      break;
    }
    case wire::RequestBody::Benchmark: {
      const auto* result = answer.body.AsBenchmarkFinished();
      ASSERT_TRUE(result);
      EXPECT_EQ(result->samples_ms.size(), 7u);
      EXPECT_EQ(result->byte_size, 0u);
      ASSERT_EQ(result->kernels.size(), 1u);
      EXPECT_EQ(result->kernels[0]->name, "test.double");
      break;
    }
    default:
      EXPECT_TRUE(answer.body.AsDone());
  }
}

TEST(Recordings, RequestsOfTheFirstVersionAreAnswered) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the recorded module is x86-64 code";
#endif
  ServerProcess server;
  FramePeer peer(server.port());
  std::set<wire::RequestBody> kinds;
  for (const Message& message : recorded("requests.bin")) {
    const std::uint32_t id = message.frames.front().header.id;
    send(peer, message, id);
    const wire::RequestT request = decode_request(message.payload);
    kinds.insert(request.body.type);
    check_answer(peer, request, peer.response_to(id));
  }
  EXPECT_EQ(kinds.size(), 11u) << "every request that there was";
}

TEST(Recordings, AnswersOfTheFirstVersionAreUnderstood) {
  const std::vector<Message> answers = recorded("answers.bin");
  FakeBoard board(
      [&](FramePeer& peer) {
        for (const Message& answer : answers) send(peer, answer, FakeBoard::next_request(peer));
      },
      /*welcome=*/false);
  BoardClient& client = *board.client;
  EXPECT_GT(client.ping().count(), 0);
  EXPECT_EQ(client.board_info().architecture, "x86_64");
  EXPECT_EQ(client.board_info(/*gpus=*/true).version, "0.1.0");
  const LoadedModule module = client.load(client.upload(testing::build({})), {.threads = 1});
  EXPECT_EQ(module.target, "test");
  EXPECT_FALSE(module.load_time) << "it does not say";
  const std::int64_t shape[] = {4};
  client.set_input(module.handle, 0, {}, shape, std::as_bytes(std::span(kInput)));
  EXPECT_GT(client.run(module.handle).run.count(), 0);
  const Tensor output = client.get_output(module.handle, 0);
  ASSERT_EQ(output.bytes.size(), sizeof kOutput);
  EXPECT_EQ(std::memcmp(output.bytes.data(), kOutput, sizeof kOutput), 0);
  const BenchmarkResult result = client.benchmark(module.handle, {.repeat = 7, .profile = true});
  EXPECT_EQ(result.samples_ms.size(), 7u);
  EXPECT_EQ(result.samples_taken, 7u);
  EXPECT_TRUE(result.started_ms.empty()) << "it does not say";
  EXPECT_TRUE(result.readings.empty()) << "it does not say";
  EXPECT_TRUE(result.step_instructions.empty()) << "it does not know of them";
  EXPECT_FALSE(result.reached_deadline);
  ASSERT_EQ(result.kernels.size(), 1u);
  EXPECT_EQ(result.kernels[0].name, "test.double");
  EXPECT_EQ(result.kernels[0].origin, "Node_7");
  client.unload(module.handle);
}

}  // namespace
}  // namespace gantry::rpc
