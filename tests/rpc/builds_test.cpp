// A tuner and a compile host over loopback, and peers that are none of either.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/use_future.hpp>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rpc/builds/build_client.h"
#include "rpc/builds/build_server.h"
#include "rpc/protocol/channel.h"
#include "rpc/security/tls.h"

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Model {
  std::string options, bytes;
  std::uint64_t text_size = 0, weights_size = 0;
};

/// Answers every build with the model's last bytes and the decisions, or as the test says.
class PlayedHandler : public BuildHandler {
 public:
  using Begin = std::function<void()>;
  using Build = std::function<BuildAnswer(const std::string&)>;

  void begin_model(const std::string& options, std::uint64_t text_size, std::uint64_t weights_size) override {
    Begin begin;
    {
      const std::scoped_lock lock(mutex_);
      model_ = {options, "", text_size, weights_size};
      begin = begin_;
    }
    if (begin) begin();
  }
  void add_to_model(std::span<const std::byte> piece) override {
    const std::scoped_lock lock(mutex_);
    model_.bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  void end_model() override { ++models_; }
  BuildAnswer build(const std::string& decisions) override {
    ++builds_;
    Build build;
    std::string module = model().bytes;
    {
      const std::scoped_lock lock(mutex_);
      build = build_;
    }
    if (build) return build(decisions);
    module = module.substr(module.size() - std::min<std::size_t>(module.size(), 3)) + decisions;
    BuildAnswer answer;
    const auto bytes = std::as_bytes(std::span(module));
    answer.module.assign(bytes.begin(), bytes.end());
    answer.steps = "first\nsecond\n";
    return answer;
  }

  void when_a_model_begins(Begin begin) {
    const std::scoped_lock lock(mutex_);
    begin_ = std::move(begin);
  }
  void when_asked(Build build) {
    const std::scoped_lock lock(mutex_);
    build_ = std::move(build);
  }
  Model model() const {
    const std::scoped_lock lock(mutex_);
    return model_;
  }

  std::atomic<int> models_ = 0, builds_ = 0;

 private:
  mutable std::mutex mutex_;
  Begin begin_;
  Build build_;
  Model model_;
};

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Builds : public ::testing::Test {
 protected:
  static BuildServerOptions server_options(const PskKey& key) {
    BuildServerOptions options;
    options.key = key;
    options.address = "127.0.0.1";
    options.generator = "7-abc";
    return options;
  }
  void SetUp() override {
    server_ = std::make_unique<BuildServer>(server_options(key_), handler_);
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    server_->stop();
    thread_.join();
  }
  BuildClientOptions client_options() const {
    BuildClientOptions options;
    options.address = "127.0.0.1:" + std::to_string(server_->port());
    options.key = key_;
    options.generator = "7-abc";
    return options;
  }
  /// It serves who comes next, as if nothing had been.
  void expect_service() {
    BuildClient client(client_options());
    client.connect();
    const std::string model = "text";
    client.put_model("{}", std::as_bytes(std::span(model)), model.size());
    EXPECT_EQ(text_of(client.build("d").module), "extd");
  }
  template <typename Action>
  static std::string message_of(ErrorKind kind, const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  PskKey key_ = generate_key("lease");
  PlayedHandler handler_;
  std::unique_ptr<BuildServer> server_;
  std::thread thread_;
};

TEST_F(Builds, TheModelArrivesAndProgramsComeBack) {
  BuildClient client(client_options());
  client.connect();
  const std::string model = std::string(3 << 20, 't') + "xyz";  // of several frames
  client.put_model("how", std::as_bytes(std::span(model)), 5);
  EXPECT_EQ(handler_.model().options, "how");
  EXPECT_EQ(handler_.model().text_size, 5u);
  EXPECT_EQ(handler_.model().weights_size, model.size() - 5);
  EXPECT_EQ(handler_.model().bytes, model);
  const std::string decisions(2 << 20, 'd');
  const BuildAnswer answer = client.build(decisions);
  EXPECT_FALSE(answer.failure);
  EXPECT_EQ(text_of(answer.module), "xyz" + decisions);
  EXPECT_EQ(answer.steps, "first\nsecond\n");
  const std::string other = "abc";
  client.put_model("", std::as_bytes(std::span(other)), 3);
  EXPECT_EQ(text_of(client.build("").module), "abc") << "of the last model";
}

TEST_F(Builds, WhatGivesNoProgramIsAnAnswer) {
  handler_.when_asked([](const std::string& decisions) {
    BuildAnswer answer;
    answer.failure = {decisions == "misfit", "too \x1b[1m wide"};
    return answer;
  });
  BuildClient client(client_options());
  client.connect();
  const BuildAnswer misfit = client.build("misfit");
  ASSERT_TRUE(misfit.failure);
  EXPECT_TRUE(misfit.failure->misfit);
  EXPECT_EQ(misfit.failure->why, "too \\u001b[1m wide") << "nothing for a terminal to act on";
  EXPECT_FALSE(client.build("other").failure->misfit);
}

TEST_F(Builds, AnotherGeneratorIsRefusedByName) {
  BuildClientOptions options = client_options();
  options.generator = "8-def";
  BuildClient client(options);
  const std::string message = message_of(ErrorKind::kBoard, [&] { client.connect(); });
  EXPECT_THAT(message, AllOf(HasSubstr(options.address), HasSubstr("7-abc"), HasSubstr("8-def")));
  expect_service();
}

TEST_F(Builds, WhoHasAnotherKeyIsRefused) {
  BuildClientOptions options = client_options();
  options.key = generate_key("lease");  // of the same name
  BuildClient client(options);
  EXPECT_THAT(message_of(ErrorKind::kReconnect, [&] { client.connect(); }), HasSubstr("refused the key"));
  EXPECT_EQ(handler_.builds_, 0);
  expect_service();
}

TEST_F(Builds, WhatTheHandlerThrowsIsSaidAndEndsTheConnection) {
  handler_.when_asked(
      [](const std::string&) -> BuildAnswer { throw std::runtime_error("the disk is full"); });
  BuildClient client(client_options());
  client.connect();
  EXPECT_THAT(message_of(ErrorKind::kBoard, [&] { client.build("d"); }), HasSubstr("the disk is full"));
  EXPECT_THAT(message_of(ErrorKind::kReconnect, [&] { client.build("d"); }), HasSubstr("lost"));
  handler_.when_asked({});
  expect_service();
}

TEST_F(Builds, AModelThatIsRefusedHalfWaySaysWhy) {
  handler_.when_a_model_begins([] { throw std::runtime_error("no such target"); });
  BuildClient client(client_options());
  client.connect();
  const std::string model(64 << 20, 't');  // more than sockets hold
  const auto put = [&] { client.put_model("", std::as_bytes(std::span(model)), 1); };
  try {
    put();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    // The kernel may drop what a host said when it closes with bytes unread; then the connection broke.
    if (error.kind() == ErrorKind::kBoard) {
      EXPECT_THAT(error.what(), HasSubstr("no such target"));
    } else {
      EXPECT_EQ(error.kind(), ErrorKind::kReconnect) << error.what();
    }
  }
  handler_.when_a_model_begins({});
  expect_service();
}

TEST_F(Builds, AProgramThatIsTooLargeIsNotTaken) {
  BuildClientOptions options = client_options();
  options.most_module_bytes = 4;
  BuildClient client(options);
  client.connect();
  EXPECT_EQ(text_of(client.build("abcd").module), "abcd");
  EXPECT_THAT(message_of(ErrorKind::kBug, [&] { client.build("abcde"); }), HasSubstr("larger"));
}

TEST_F(Builds, ABuildThatGoesOnIsGivenUpAtOnce) {
  std::promise<void> begun, end;
  handler_.when_asked([&](const std::string&) {
    begun.set_value();
    end.get_future().wait();
    return BuildAnswer{.failure = BuildAnswer::Failure{false, ""}, .module = {}, .steps = {}};
  });
  BuildClient client(client_options());
  client.connect();
  std::thread other([&] {
    begun.get_future().wait();
    client.interrupt();
  });
  message_of(ErrorKind::kReconnect, [&] { client.build("d"); });
  other.join();
  message_of(ErrorKind::kReconnect, [&] { client.build("d"); });
  end.set_value();
  handler_.when_asked({});
  expect_service();
}

TEST_F(Builds, AClientThatIsInterruptedDoesNotConnect) {
  BuildClient client(client_options());
  client.interrupt();
  message_of(ErrorKind::kReconnect, [&] { client.connect(); });
}

TEST_F(Builds, ABuildThatTakesTooLongIsGivenUp) {
  std::promise<void> end;
  handler_.when_asked([&](const std::string&) {
    end.get_future().wait();
    return BuildAnswer{.failure = BuildAnswer::Failure{false, ""}, .module = {}, .steps = {}};
  });
  BuildClientOptions options = client_options();
  options.build_timeout = milliseconds(200);
  BuildClient client(options);
  client.connect();
  EXPECT_THAT(message_of(ErrorKind::kReconnect, [&] { client.build("d"); }), HasSubstr("no answer"));
  end.set_value();
  handler_.when_asked({});
  expect_service();
}

/// Holds the key, and sends what it likes.
class RawTuner {
 public:
  RawTuner(std::uint16_t port, const PskKey& key) : tls_(make_client_context(key)) {
    asio::ip::tcp::socket socket(io_);
    socket.connect({asio::ip::address_v4::loopback(), port});
    auto stream = std::make_unique<TlsStream>(std::move(socket), tls_.get(), TlsStream::Role::kClient);
    TlsStream& opened = *stream;
    run(opened.handshake());
    stream_ = std::move(stream);
  }
  ~RawTuner() { stream_->close(); }

  void send(const Bytes& bytes) { run(stream_->write(asio::buffer(bytes), false)); }
  /// Everything until the other side closes.
  std::string rest() {
    std::string all;
    char buffer[4096];
    for (;;) {
      std::size_t count = 0;
      try {
        count = run(stream_->read_some(asio::buffer(buffer)));
      } catch (const std::exception&) {
      }
      if (count == 0) return all;
      all.append(buffer, count);
    }
  }

 private:
  template <typename T>
  T run(asio::awaitable<T> task) {
    std::future<T> result = asio::co_spawn(io_, std::move(task), asio::use_future);
    io_.restart();
    io_.run();
    return result.get();
  }

  asio::io_context io_;
  TlsContext tls_;
  std::unique_ptr<TlsStream> stream_;
};

Bytes hello(const std::string& generator = "7-abc") {
  build_wire::HelloT body;
  body.version = kBuildProtocolVersion;
  body.generator = generator;
  return encode_build_request(1, make_build_request(std::move(body)));
}
Bytes build_of(std::uint64_t size) {
  build_wire::BuildT body;
  body.size = size;
  return encode_build_request(2, make_build_request(std::move(body)));
}
Bytes with(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}
Bytes frame(FrameType type, const Bytes& payload, std::uint32_t id = 2) {
  const FrameHeaderBytes header = encode_header({type, id, static_cast<std::uint32_t>(payload.size())});
  return with(Bytes(header.begin(), header.end()), payload);
}

TEST_F(Builds, WhatIsNoMessageEndsTheConnectionAndNothingElse) {
  build_wire::PutModelT long_text;
  long_text.text_size = kMaxBuildText + 1;
  const Bytes model = encode_build_request(2, make_build_request(std::move(long_text)));
  const struct {
    Bytes sent;
    const char* said;
  } cases[] = {
      {build_of(0), "greeting"},
      {with(hello(), hello()), "greeting"},
      {with(hello(), Bytes(64, 0x41)), ""},
      {with(hello(), frame(FrameType::kRequest, Bytes(40, 0x41))), "verify"},
      {with(hello(), frame(FrameType::kRequest, {})), "verify"},
      {with(hello(), frame(FrameType::kData, Bytes(8, 0))), "no request"},
      {with(hello(), frame(FrameType::kResponse, Bytes(8, 0))), "no request"},
      {with(hello(), build_of(kMaxBuildText + 1)), "impossible size"},
      {with(hello(), model), "impossible size"},
      // Data of another request, and more than was announced.
      {with(hello(), with(build_of(8), frame(FrameType::kData, Bytes(8, 0), 3))), "something else came"},
      {with(hello(), with(build_of(8), frame(FrameType::kData, Bytes(9, 0)))), "something else came"},
      {with(hello(), with(build_of(8), build_of(0))), "something else came"},
      {hello("\x1b[1m"), "7-abc"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.said);
    RawTuner tuner(server_->port(), key_);
    tuner.send(one.sent);
    EXPECT_THAT(tuner.rest(), HasSubstr(one.said));
  }
  EXPECT_EQ(handler_.builds_, 0);
  EXPECT_EQ(handler_.models_, 0);
  expect_service();
}

TEST_F(Builds, ATunerThatGoesInTheMiddleOfAMessageLeavesTheHostToOthers) {
  {
    RawTuner tuner(server_->port(), key_);
    tuner.send(with(hello(), with(build_of(8), frame(FrameType::kData, Bytes(4, 0)))));
  }
  expect_service();
}

TEST_F(Builds, StraysAreOfNoConsequence) {
  const int stray = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server_->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(stray, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_GT(::send(stray, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 0);
  expect_service();
  ::close(stray);
}

/// Strategies: bits flipped, bytes replaced, ends cut off, in requests and responses of every kind.
TEST(BuildMessages, ChangedBytesAreReadOrRefused) {
  build_wire::PutModelT model;
  model.options = "{\"target\": \"x86-64-v3\"}";
  model.text_size = 100;
  model.weights_size = 1 << 20;
  build_wire::BuiltT built;
  built.module_size = 1000;
  built.steps_size = 10;
  build_wire::NotBuiltT failed;
  failed.why = "it does not fit";
  build_wire::FailureT failure;
  failure.message = "another generator";
  const Bytes frames[] = {hello(),
                          build_of(7),
                          encode_build_request(1, make_build_request(std::move(model))),
                          encode_build_response(1, make_build_response(std::move(built))),
                          encode_build_response(1, make_build_response(std::move(failed))),
                          encode_build_response(1, make_build_response(std::move(failure)))};
  std::mt19937 random(7);
  size_t read = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes(frames[round % 6].begin() + kFrameHeaderSize, frames[round % 6].end());
    for (unsigned changes = random() % 4; changes > 0 && !bytes.empty(); --changes) {
      const size_t at = random() % bytes.size();
      if (random() % 8 == 0) {
        bytes.resize(at);
      } else {
        bytes[at] = random() % 2 == 0 ? static_cast<std::uint8_t>(random())
                                      : static_cast<std::uint8_t>(bytes[at] ^ (1u << random() % 8));
      }
    }
    for (const bool request : {true, false}) {
      try {
        const std::uint64_t following = request ? following_bytes(decode_build_request(bytes))
                                                : following_bytes(decode_build_response(bytes));
        EXPECT_LE(following, kMaxModuleBytes + kMaxBuildText);
        ++read;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(read, 0u);
  EXPECT_GT(refused, 0u);
}

TEST(BuildServer, EndsWhereNobodyUsesIt) {
  BuildServerOptions options;
  options.key = generate_key();
  options.address = "127.0.0.1";
  options.unused = milliseconds(50);
  PlayedHandler handler;
  BuildServer(std::move(options), handler).run();
}

TEST(BuildServer, AnAddressThatIsNotThisMachinesIsSaid) {
  BuildServerOptions options;
  options.key = generate_key();
  options.address = "192.0.2.1";  // of documentation (RFC 5737)
  PlayedHandler handler;
  try {
    const BuildServer server(std::move(options), handler);
    ADD_FAILURE() << "it listens";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBoard);
    EXPECT_THAT(error.what(), HasSubstr("192.0.2.1"));
  }
}

TEST(BuildServer, IsKilledInTheMiddleOfABuildAndTheClientKnowsAtOnce) {
  const PskKey key = generate_key();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t host = ::fork();
  if (host == 0) {
    BuildServerOptions options;
    options.key = key;
    options.address = "127.0.0.1";
    PlayedHandler handler;
    handler.when_asked([](const std::string&) -> BuildAnswer {
      ::raise(SIGKILL);
      return {};
    });
    BuildServer server(std::move(options), handler);
    const std::uint16_t port = server.port();
    if (::write(ends[1], &port, sizeof port) != sizeof port) ::_exit(1);
    server.run();
    ::_exit(1);
  }
  ASSERT_GT(host, 0);
  std::uint16_t port = 0;
  ASSERT_EQ(::read(ends[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  BuildClientOptions options;
  options.address = "127.0.0.1:" + std::to_string(port);
  options.key = key;
  BuildClient client(options);
  client.connect();
  try {
    client.build("d");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kReconnect) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(options.address));
  }
  int status = 0;
  EXPECT_EQ(::waitpid(host, &status, 0), host);
  EXPECT_TRUE(WIFSIGNALED(status));
  ::close(ends[0]);
  ::close(ends[1]);
  BuildClient late(options);
  EXPECT_THROW(late.connect(), Error);
}

TEST(BuildClient, AnAddressThatIsNoneIsSaid) {
  for (const char* address : {"", "host", "host:", ":7"}) {
    BuildClientOptions options;
    options.address = address;
    options.key = generate_key();
    BuildClient client(options);
    EXPECT_THROW(client.connect(), Error) << address;
  }
}

}  // namespace
}  // namespace gantry::rpc
