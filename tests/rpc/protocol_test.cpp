// Frames, messages and channels without a socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include "rpc/protocol/channel.h"

namespace gantry::rpc {
namespace {

/// A stream in memory: gives out prepared bytes in small pieces, keeps what is written.
class MemoryStream : public Stream {
 public:
  MemoryStream(asio::io_context& io, Bytes input, std::size_t piece)
      : io_(io), input_(std::move(input)), piece_(piece) {}
  asio::any_io_executor executor() override { return io_.get_executor(); }
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer buffer) override {
    const std::size_t count = std::min({buffer.size(), piece_, input_.size() - position_});
    std::copy_n(input_.begin() + static_cast<std::ptrdiff_t>(position_), count,
                static_cast<std::uint8_t*>(buffer.data()));
    position_ += count;
    co_return count;
  }
  asio::awaitable<void> write(asio::const_buffer buffer, bool) override {
    const auto* bytes = static_cast<const std::uint8_t*>(buffer.data());
    written.insert(written.end(), bytes, bytes + buffer.size());
    co_return;
  }
  void close() noexcept override {}
  Bytes written;

 private:
  asio::io_context& io_;
  Bytes input_;
  std::size_t piece_, position_ = 0;
};

void run(asio::io_context& io, asio::awaitable<void> task) {
  std::exception_ptr failure;
  asio::co_spawn(io, std::move(task), [&](std::exception_ptr error) { failure = error; });
  io.run();
  if (failure) std::rethrow_exception(failure);
}

TEST(Frame, HeaderRoundTrips) {
  const FrameHeader header = decode_header(encode_header({FrameType::kData, 0x12345678, 1 << 20}));
  EXPECT_EQ(header.type, FrameType::kData);
  EXPECT_EQ(header.id, 0x12345678u);
  EXPECT_EQ(header.length, 1u << 20);
}

TEST(Frame, LengthsBeyondTheLimitAreRefused) {
  EXPECT_THROW(decode_header(encode_header({FrameType::kRequest, 1, kMaxControlBytes + 1})), Error);
  EXPECT_THROW(decode_header(encode_header({FrameType::kData, 1, 0x80000000u})), Error);
  EXPECT_THROW(decode_header(encode_header({FrameType::kRequest, 1, kMaxHelloBytes + 1}), kMaxHelloBytes),
               Error);
}

TEST(Message, InputWhoseBytesContradictItsShapeIsRefused) {
  wire::SetInputT input;
  input.type = std::make_unique<wire::ElementType>(2, 32);
  input.shape = {2, 3};
  input.byte_size = 24;
  const Bytes good = encode_request(1, make_request(input));
  EXPECT_EQ(following_bytes(decode_request(std::span(good).subspan(kFrameHeaderSize))), 24u);
  input.byte_size = 25;
  const Bytes bad = encode_request(1, make_request(input));
  EXPECT_THROW(decode_request(std::span(bad).subspan(kFrameHeaderSize)), Error);
  input.shape = {std::int64_t{1} << 62, 16};
  const Bytes huge = encode_request(1, make_request(input));
  EXPECT_THROW(decode_request(std::span(huge).subspan(kFrameHeaderSize)), Error);
}

TEST(Message, UploadBehindTheEndOfItsSegmentIsRefused) {
  wire::UploadSegmentT upload;
  upload.digest = to_wire(DigestBytes{});
  upload.size = 10;
  upload.offset = 11;
  const Bytes frame = encode_request(1, make_request(upload));
  EXPECT_THROW(decode_request(std::span(frame).subspan(kFrameHeaderSize)), Error);
}

TEST(Message, ALeaseOfNoPriorityOrALongPurposeIsRefused) {
  wire::TakeLeaseT lease;
  lease.priority = kMaxLeasePriority;
  lease.purpose = std::string(kMaxPurpose, 'x');
  const auto decode = [&] {
    const Bytes frame = encode_request(1, make_request(lease));
    return decode_request(std::span(frame).subspan(kFrameHeaderSize));
  };
  EXPECT_EQ(decode().body.AsTakeLease()->purpose.size(), kMaxPurpose);
  lease.purpose += 'x';
  EXPECT_THROW(decode(), Error);
  lease.purpose.clear();
  lease.priority = kMaxLeasePriority + 1;
  EXPECT_THROW(decode(), Error);
}

TEST(Message, AListOfMoreWhoWaitThanAllowedIsTheBoardsFault) {
  wire::LeaseQueueT queue;
  for (std::size_t i = 0; i < kMaxLeaseRows; ++i)
    queue.waiting.push_back(std::make_unique<wire::LeaseEntryT>());
  const auto decode = [&] {
    const Bytes frame = encode_response(1, make_response(queue));
    return decode_response(std::span(frame).subspan(kFrameHeaderSize));
  };
  EXPECT_EQ(decode().body.AsLeaseQueue()->waiting.size(), kMaxLeaseRows);
  queue.waiting.push_back(std::make_unique<wire::LeaseEntryT>());
  EXPECT_THROW(decode(), Error);
}

TEST(Message, AnOutputOfNoTypeIsTheBoardsFault) {
  wire::OutputT output;
  output.type = std::make_unique<wire::ElementType>(2, 24);
  output.shape = {1};
  output.byte_size = 3;
  const Bytes frame = encode_response(1, make_response(output));
  try {
    decode_response(std::span(frame).subspan(kFrameHeaderSize));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBug);
  }
}

/// A result with so many kernels, all in one place of the message, that share one text.
Bytes repetitive_result(std::size_t kernels, const std::string& text) {
  flatbuffers::FlatBufferBuilder builder;
  const auto name = builder.CreateString(text);
  const auto kernel = wire::CreateKernelTiming(builder, name, name);
  const auto rows = builder.CreateVector(std::vector(kernels, kernel));
  wire::BenchmarkFinishedBuilder finished(builder);
  finished.add_kernels(rows);
  const auto body = finished.Finish();
  builder.Finish(wire::CreateResponse(builder, wire::ResponseBody::BenchmarkFinished, body.Union()));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

/// A board with so many features, which share one text.
Bytes repetitive_board(std::size_t features, const std::string& text) {
  flatbuffers::FlatBufferBuilder builder;
  const auto feature = builder.CreateString(text);
  const auto rows = builder.CreateVector(std::vector(features, feature));
  wire::BoardDescriptionBuilder board(builder);
  board.add_features(rows);
  const auto body = board.Finish();
  builder.Finish(wire::CreateResponse(builder, wire::ResponseBody::BoardDescription, body.Union()));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

TEST(Message, AListOfOneTextOverAndOverIsRefusedThoughTheTextIsEmpty) {
  EXPECT_EQ(decode_response(repetitive_board(3, "")).body.AsBoardDescription()->features.size(), 3u);
  EXPECT_THROW(decode_response(repetitive_board(250'000, "")), Error);  // 8 MB of strings in 1 MB
}

TEST(Message, AListOfManyTextsThatAreStoredOnceArrives) {
  wire::BoardDescriptionT board;
  board.features.assign(20'000, "");
  const Bytes frame = encode_response(1, make_response(board));
  const auto response = decode_response(std::span(frame).subspan(kFrameHeaderSize));
  EXPECT_EQ(response.body.AsBoardDescription()->features, board.features);
}

TEST(Message, AResponseThatUnpacksToManyTimesItsLengthIsRefused) {
  EXPECT_EQ(decode_response(repetitive_result(3, "conv")).body.AsBenchmarkFinished()->kernels.size(), 3u);
  try {
    decode_response(repetitive_result(200, std::string(500'000, 'x')));  // 100 MB of 500 KB
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBug);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("over and over"));
  }
}

TEST(Channel, DataArrivesWholeFromSmallPieces) {
  asio::io_context io;
  Bytes wire;
  const FrameHeaderBytes header = encode_header({FrameType::kData, 5, 100});
  for (int part = 0; part < 2; ++part) {
    wire.insert(wire.end(), header.begin(), header.end());
    for (int i = 0; i < 100; ++i) wire.push_back(static_cast<std::uint8_t>(part * 100 + i));
  }
  FrameChannel channel(std::make_unique<MemoryStream>(io, wire, 7));
  Bytes received(200);
  std::size_t at = 0;
  run(io, channel.read_data(5, 200, [&](std::size_t length) {
    at += length;
    return asio::buffer(received.data() + at - length, length);
  }));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(received[static_cast<std::size_t>(i)], i);
}

TEST(Channel, DataOfAnotherRequestIsAnError) {
  asio::io_context io;
  const FrameHeaderBytes header = encode_header({FrameType::kData, 6, 4});
  FrameChannel channel(std::make_unique<MemoryStream>(io, Bytes(header.begin(), header.end()), 100));
  Bytes received(4);
  EXPECT_THROW(run(io, channel.read_data(5, 4, [&](std::size_t) { return asio::buffer(received); })), Error);
}

TEST(Channel, StreamThatEndsWithinAHeaderIsAnError) {
  asio::io_context io;
  FrameChannel channel(
      std::make_unique<MemoryStream>(io, Bytes(kFrameMagic.begin(), kFrameMagic.end()), 100));
  const auto task = [&]() -> asio::awaitable<void> { co_await channel.read_header(); };
  EXPECT_THROW(run(io, task()), Error);
}

}  // namespace
}  // namespace gantry::rpc
