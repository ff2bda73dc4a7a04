// Bytes that no honest client sends, to a server that runs: random frames, and a valid session with changes.
// Each gets an answer or a close, and leaves nothing behind. Prints its seed; GANTRY_TEST_SEED=N repeats a
// run.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "rpc/client/client.h"
#include "rpc/client/module_layout.h"
#include "rpc/protocol/message.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;
using Random = std::mt19937;

constexpr std::size_t kFrames = 10'000;
constexpr int kPeers = 4;  // at once
// For each kind of noise: a slow machine sends fewer frames.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::chrono::seconds kPatience{40};
#else
constexpr std::chrono::seconds kPatience{11};
#endif
constexpr int kQuietMs = 10;  // a frame without an answer by then waits for more bytes

/// What a peer sends at once: a frame, or a request with the frames of its data.
using Message = Bytes;

class Peer {
 public:
  explicit Peer(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    open_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    EXPECT_TRUE(open_) << "the server does not accept";
  }
  ~Peer() { ::close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool open() const { return open_; }
  const Bytes& received() const { return received_; }
  void send(const Message& message) {
    if (::send(fd_, message.data(), message.size(), MSG_NOSIGNAL) < 0) open_ = false;
  }
  /// Until something came or the server closed, `ms` at most.
  void wait(int ms) {
    pollfd waiting{fd_, POLLIN, 0};
    if (!open_ || ::poll(&waiting, 1, ms) <= 0) return;
    std::uint8_t buffer[16384];
    const ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
    if (count <= 0)
      open_ = false;
    else
      received_.insert(received_.end(), buffer, buffer + count);
  }
  /// Nothing more comes from here: an honest server ends the session.
  void wait_for_close() {
    ::shutdown(fd_, SHUT_WR);
    const auto give_up = Clock::now() + std::chrono::seconds(10);
    while (open_ && Clock::now() < give_up) wait(1000);
    EXPECT_FALSE(open_) << "the server does not close a connection that its peer has ended";
  }

 private:
  int fd_;
  bool open_ = false;
  Bytes received_;
};

/// A session that uploads, loads and runs a module, as the client's own messages.
class ValidSession {
 public:
  ValidSession() {
    const std::vector<std::byte> file = testing::build({});
    const ModuleLayout layout = read_layout(file, "the test's module");
    wire::HelloT hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.client = "noise";
    add(std::move(hello));
    add(wire::PingT{});
    add(wire::GetBoardInfoT{});
    wire::QuerySegmentsT query;
    wire::LoadModuleT load;
    for (const ModuleSegment& segment : layout.segments) {
      auto name = std::make_unique<wire::SegmentNameT>();
      name->digest = to_wire(segment.digest);
      name->size = segment.size;
      load.segments.push_back(std::make_unique<wire::SegmentNameT>(*name));
      query.segments.push_back(std::move(name));
    }
    add(std::move(query));
    for (const ModuleSegment& segment : layout.segments) {
      wire::UploadSegmentT upload;
      upload.digest = to_wire(segment.digest);
      upload.size = segment.size;
      add(std::move(upload), std::span(file).subspan(segment.offset, segment.size));
    }
    load.manifest_size = layout.manifest_size;
    load.threads = 1;
    add(std::move(load), std::span(file).subspan(layout.manifest_offset, layout.manifest_size));
    add_use();
  }
  const std::vector<Message>& messages() const { return messages_; }

 private:
  void add_use() {
    constexpr std::uint32_t kHandle = 1;
    const float values[] = {1, 2, 3, 4};
    wire::SetInputT input;
    input.handle = kHandle;
    input.type = std::make_unique<wire::ElementType>(2, 32);
    input.shape = {4};
    input.byte_size = sizeof values;
    add(std::move(input), std::as_bytes(std::span(values)));
    wire::RunT run;
    run.handle = kHandle;
    add(run);
    wire::GetOutputT output;
    output.handle = kHandle;
    add(output);
    wire::BenchmarkT benchmark;
    benchmark.handle = kHandle;
    benchmark.number = benchmark.repeat = 1;
    add(benchmark);
    wire::UnloadModuleT unload;
    unload.handle = kHandle;
    add(unload);
  }
  template <typename T>
  void add(T body, std::span<const std::byte> data = {}) {
    const auto id = static_cast<std::uint32_t>(messages_.size() + 1);
    Message message = encode_request(id, make_request(std::move(body)));
    if (!data.empty()) {
      const FrameHeaderBytes header =
          encode_header({FrameType::kData, id, static_cast<std::uint32_t>(data.size())});
      message.insert(message.end(), header.begin(), header.end());
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(data.data());
      message.insert(message.end(), bytes, bytes + data.size());
    }
    messages_.push_back(std::move(message));
  }
  std::vector<Message> messages_;
};

/// Bytes; bytes behind the magic; or a frame with a sound header, whose payload is bytes.
Message random_frame(Random& random) {
  Message frame(kFrameHeaderSize + random() % 300);
  for (auto& byte : frame) byte = static_cast<std::uint8_t>(random());
  const auto kind = random() % 8;
  if (kind == 0) return frame;
  std::copy(kFrameMagic.begin(), kFrameMagic.end(), frame.begin());
  if (kind == 1) return frame;
  const auto type = static_cast<FrameType>(1 + random() % 4);
  const FrameHeaderBytes header =
      encode_header({type, static_cast<std::uint32_t>(random()),
                     static_cast<std::uint32_t>(frame.size() - kFrameHeaderSize)});
  std::copy(header.begin(), header.end(), frame.begin());
  return frame;
}

/// Mostly with changes in the payload or the data alone, so that the next frame is read where it begins; else
/// anywhere, cut off or longer.
Message mutated(const Message& message, Random& random) {
  std::vector<std::byte> bytes(message.size());
  std::memcpy(bytes.data(), message.data(), message.size());
  if (random() % 4 != 0) {
    std::uint32_t length = 0;
    std::memcpy(&length, &bytes[12], sizeof length);
    const std::size_t end = kFrameHeaderSize + length;
    auto part = std::span(bytes).subspan(kFrameHeaderSize, length);
    if (bytes.size() > end + kFrameHeaderSize && random() % 2)
      part = std::span(bytes).subspan(end + kFrameHeaderSize);
    fuzz::overwrite(part, random);
  } else {
    fuzz::mutate(bytes, random);
  }
  Message result(bytes.size());
  std::transform(bytes.begin(), bytes.end(), result.begin(),
                 [](std::byte byte) { return static_cast<std::uint8_t>(byte); });
  return result;
}

class Noise : public ::testing::Test {
 protected:
  Noise() : server_({"--deadline", "2", "--max-sessions", "64", "--session-memory", "256MiB"}) {
    const char* given = std::getenv("GANTRY_TEST_SEED");
    seed_ = given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
    std::printf("seed %u\n", seed_);
  }

  /// A good client's whole session, which must end with the module's output.
  void expect_service() {
    Peer peer(server_.port());
    for (const Message& message : valid_.messages()) peer.send(message);
    const float output[] = {3, 5, 7, 9};
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(output);
    const auto give_up = Clock::now() + std::chrono::seconds(5);
    const auto answered = [&] {
      return std::search(peer.received().begin(), peer.received().end(), bytes, bytes + sizeof output) !=
             peer.received().end();
    };
    while (peer.open() && !answered() && Clock::now() < give_up) peer.wait(100);
    EXPECT_TRUE(answered()) << "a good client gets no answer";
  }

  /// No session lives, and the server has at most so many descriptors; or 10 s have passed.
  void wait_until_idle(std::size_t descriptors = SIZE_MAX) {
    for (int i = 0; i < 200 && (server_.descendants() > 0 || server_.descriptors() > descriptors); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  /// Sends `kFrames` frames from several peers at once. `talk(peer, random)` sends some over one connection
  /// and returns how many.
  template <typename Talk>
  void send_noise(Talk talk) {
    for (int i = 0; i < 20; ++i) expect_service();  // what the server sets up once is there
    wait_until_idle();
    const std::size_t descriptors = server_.descriptors(), memory = server_.resident_kilobytes();
    const auto start = Clock::now();
    std::atomic<std::size_t> sent = 0, connections = 0;
    {
      std::vector<std::jthread> peers;
      for (int i = 0; i < kPeers; ++i)
        peers.emplace_back([&, random = Random(seed_ + static_cast<unsigned>(i))]() mutable {
          while (sent < kFrames && Clock::now() - start < kPatience) {
            Peer peer(server_.port());
            if (!peer.open()) return;
            ++connections;
            sent += talk(peer, random);
            if (random() % 4 == 0) peer.wait_for_close();  // others just vanish
            inspect(peer.received());
          }
        });
    }
    std::printf("resident %zu -> %zu KiB\n", memory, server_.resident_kilobytes());
    std::printf("%zu frames over %zu connections in %.1f s\n", sent.load(), connections.load(),
                std::chrono::duration<double>(Clock::now() - start).count());
    expect_service();
    wait_until_idle(descriptors);
    EXPECT_EQ(server_.descendants(), 0u) << "no session or executor stays";
    // The count before may hold one of a session that had just ended.
    EXPECT_LE(server_.descriptors(), descriptors);
#if !defined(__SANITIZE_ADDRESS__)  // which keeps freed memory for a while
    EXPECT_LT(server_.resident_kilobytes(), memory + 1024);
#endif
    EXPECT_THAT(server_.errors(), AllOf(Not(HasSubstr("a session")), Not(HasSubstr("runtime error"))));
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(complaint_, "");
  }

  /// A kernel may fail with changed arguments; what surrounds it may not.
  void inspect(const Bytes& received) {
    const std::string text(received.begin(), received.end());
    const std::string marker = "outside of any kernel";
    for (std::size_t at = 0; (at = text.find(marker, at)) != std::string::npos; ++at) {
      const std::string around = text.substr(at < 40 ? 0 : at - 40, 160);
      if (around.find("deadline") != std::string::npos || around.find("SIGKILL") != std::string::npos)
        continue;
      const std::lock_guard lock(mutex_);
      complaint_ = around;
    }
  }

  ValidSession valid_;
  testing::ServerProcess server_{{"--log-level", "warning"}};
  unsigned seed_ = 0;
  std::mutex mutex_;
  std::string complaint_;
};

TEST_F(Noise, RandomFramesEachGetAnAnswerOrAClose) {
  send_noise([&](Peer& peer, Random& random) {
    const std::vector<Message>& messages = valid_.messages();
    if (random() % 2) {
      peer.send(messages.front());
      peer.wait(1000);
    }
    std::size_t count = 0;
    for (; peer.open() && count < 40; ++count) {
      peer.send(random_frame(random));
      peer.wait(kQuietMs);
    }
    return count;
  });
}

TEST_F(Noise, ChangedFramesOfAValidSessionEachGetAnAnswerOrAClose) {
  send_noise([&](Peer& peer, Random& random) {
    const std::vector<Message>& messages = valid_.messages();
    const std::size_t sound = random() % messages.size();
    for (std::size_t i = 0; i < sound; ++i) peer.send(messages[i]);
    if (sound > 0) peer.wait(1000);
    std::size_t count = 0;
    for (; peer.open() && count < 60; ++count) {
      // At first the one that is due, then any: often they find the module loaded.
      const std::size_t next = count == 0 ? sound : random() % messages.size();
      peer.send(mutated(messages[next], random));
      peer.wait(kQuietMs);
    }
    return count;
  });
}

}  // namespace
}  // namespace gantry::rpc
