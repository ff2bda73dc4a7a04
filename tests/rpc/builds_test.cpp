// A tuner and a compile host over loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "rpc/builds/build_client.h"
#include "rpc/builds/build_server.h"
#include "tests/rpc/played_builds.h"

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Builds = PlayedBuilds;

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
