#include "rpc/builds/build_server.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <deque>
#include <exception>
#include <list>
#include <system_error>
#include <utility>

#include "rpc/protocol/channel.h"
#include "rpc/protocol/watchdog.h"
#include "rpc/security/tls.h"

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;

/// For the handshake, and for the greeting behind it.
constexpr milliseconds kHandshake{10'000};
/// Connections that have not shown the key yet: with more, the oldest goes.
constexpr std::size_t kMostStrangers = 64;
/// Within a message.
constexpr milliseconds kStall{60'000};
constexpr milliseconds kUnacknowledged{120'000};
constexpr milliseconds kPauseAfterFailure{200};
/// Of a reason, which stands in a control message.
constexpr std::size_t kMostWords = std::size_t{64} << 10;

/// What the handler throws is no failure of the connection.
template <typename Action>
auto by_handler(const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kBoard, error.what());
  }
}

template <typename T>
Bytes answer_frame(std::uint32_t id, T body) {
  return encode_build_response(id, with_body<build_wire::ResponseT>(std::move(body)));
}

}  // namespace

struct BuildServer::Impl {
  Impl(BuildServerOptions given, BuildHandler& what) : options(std::move(given)), handler(what) {
    auto keys = std::make_shared<ServerKeys>();
    keys->set({{options.key, 1, {}}});
    tls = make_server_context(std::move(keys));
    try {
      const tcp::endpoint endpoint(asio::ip::make_address(options.address), options.port);
      acceptor.open(endpoint.protocol());
      acceptor.bind(endpoint);
      acceptor.listen();
    } catch (const std::system_error& error) {
      throw Error(ErrorKind::kBoard, "cannot listen on " + options.address + ":" +
                                         std::to_string(options.port) + ": " + error.what());
    }
  }

  BuildServerOptions options;
  BuildHandler& handler;
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  TlsContext tls;
  std::list<TlsStream*> strangers;                ///< whose handshakes go on, the oldest first
  std::deque<std::unique_ptr<TlsStream>> tuners;  ///< that have the key, and wait
  Signal arrived{io.get_executor()};              ///< one of them, or the end
  FrameChannel* channel = nullptr;                ///< of the tuner that is served
  bool stopping = false;

  void end();
  asio::awaitable<void> accept_all();
  asio::awaitable<void> admit(tcp::socket socket);
  asio::awaitable<void> serve_all();
  asio::awaitable<void> serve(std::unique_ptr<TlsStream> stream);
  asio::awaitable<void> talk(FrameChannel& channel, Watchdog& patience);
  asio::awaitable<void> greet(FrameChannel& channel);
  asio::awaitable<bool> answer_one(FrameChannel& channel);
  asio::awaitable<void> take_model(FrameChannel& channel, std::uint32_t id,
                                   const build_wire::PutModelT& model);
  asio::awaitable<void> build(FrameChannel& channel, std::uint32_t id, std::uint64_t size);
};

void BuildServer::Impl::end() {
  stopping = true;
  acceptor.cancel();
  for (TlsStream* stranger : strangers) stranger->close();
  if (channel) channel->close();
  tuners.clear();
  arrived.notify_all();
}

/// Beside the tuner that is served, whom strangers do not keep waiting.
asio::awaitable<void> BuildServer::Impl::accept_all() {
  while (!stopping) {
    tcp::socket socket(io);
    std::error_code error;
    co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (stopping) co_return;
    if (!error) {
      if (strangers.size() >= kMostStrangers) strangers.front()->close();
      asio::co_spawn(io, admit(std::move(socket)), asio::detached);
    } else {
      // Too many open files, say: it may pass.
      asio::steady_timer pause(io, kPauseAfterFailure);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }
}

asio::awaitable<void> BuildServer::Impl::admit(tcp::socket socket) {
  if (stopping) co_return;
  std::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  notice_vanished_peer(socket.native_handle(), kUnacknowledged);
  auto stream = std::make_unique<TlsStream>(std::move(socket), tls.get(), TlsStream::Role::kServer);
  TlsStream& opened = *stream;
  const Watchdog patience(io.get_executor(), kHandshake, [&opened] { opened.close(); });
  const auto place = strangers.insert(strangers.end(), &opened);
  bool known = false;
  try {
    co_await opened.handshake();
    known = true;
  } catch (const std::exception&) {
    // A stray, or another key: nothing is said to it.
  }
  strangers.erase(place);
  if (!known || stopping) co_return;
  tuners.push_back(std::move(stream));
  arrived.notify_all();
}

asio::awaitable<void> BuildServer::Impl::serve_all() {
  Clock::time_point last_use = Clock::now();
  while (!stopping) {
    if (!tuners.empty()) {
      std::unique_ptr<TlsStream> next = std::move(tuners.front());
      tuners.pop_front();
      co_await serve(std::move(next));
      last_use = Clock::now();
      continue;
    }
    const auto left = options.unused - std::chrono::duration_cast<milliseconds>(Clock::now() - last_use);
    if (left.count() <= 0) break;
    const Watchdog unused(io.get_executor(), left, [this] { arrived.notify_all(); });
    co_await arrived.wait();
  }
}

asio::awaitable<void> BuildServer::Impl::serve(std::unique_ptr<TlsStream> stream) {
  TlsStream& opened = *stream;
  Watchdog patience(io.get_executor(), kHandshake, [&opened] { opened.close(); });
  FrameChannel served(std::move(stream));
  struct Current {
    FrameChannel*& channel;
    ~Current() { channel = nullptr; }
  } current{channel};
  channel = &served;
  std::string problem;
  try {
    co_await talk(served, patience);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kReconnect) problem = error.what();
  } catch (const std::exception&) {
    // The connection broke: whoever it was comes again, or does not.
  }
  if (!problem.empty() && !served.closed()) {
    build_wire::FailureT failure;
    failure.message = problem.substr(0, kMostWords);
    const Bytes frame = answer_frame(0, std::move(failure));
    try {
      co_await served.write(0, frame);
    } catch (const std::exception&) {
    }
  }
  patience.disarm();
  served.close();
}

asio::awaitable<void> BuildServer::Impl::talk(FrameChannel& served, Watchdog& patience) {
  served.set_stall_timeout(kStall);
  co_await greet(served);
  patience.disarm();
  for (bool more = true; more && !stopping;) {
    more = co_await answer_one(served);
  }
}

asio::awaitable<void> BuildServer::Impl::greet(FrameChannel& served) {
  const auto header = co_await served.read_header(kMaxHelloBytes);
  if (!header) throw Error(ErrorKind::kReconnect, "the connection ended before a greeting");
  if (header->type != FrameType::kRequest) throw Error(ErrorKind::kBug, "the first message is no greeting");
  const Bytes payload = co_await served.read_payload(*header);
  const build_wire::RequestT request = decode_build_request(payload);
  const auto* hello = request.body.AsHello();
  if (!hello) throw Error(ErrorKind::kBug, "the first message is no greeting");
  if (hello->version != kBuildProtocolVersion || hello->generator != options.generator)
    throw Error(ErrorKind::kRequest,
                "gantry there is " + options.generator + ", and here " + hello->generator +
                    ": they make other code of the same decisions; install the same one");
  build_wire::WelcomeT welcome;
  welcome.version = kBuildProtocolVersion;
  welcome.server = "gantry";
  const Bytes frame = answer_frame(header->id, std::move(welcome));
  co_await served.write(header->id, frame);
}

/// False: the tuner has gone.
asio::awaitable<bool> BuildServer::Impl::answer_one(FrameChannel& served) {
  const auto header = co_await served.read_header();
  if (!header) co_return false;
  if (header->type != FrameType::kRequest) throw Error(ErrorKind::kBug, "a message came that is no request");
  const Bytes payload = co_await served.read_payload(*header);
  const build_wire::RequestT request = decode_build_request(payload);
  if (const auto* model = request.body.AsPutModel()) {
    co_await take_model(served, header->id, *model);
  } else if (const auto* wanted = request.body.AsBuild()) {
    co_await build(served, header->id, wanted->size);
  } else {
    throw Error(ErrorKind::kBug, "a second greeting came");
  }
  co_return true;
}

asio::awaitable<void> BuildServer::Impl::take_model(FrameChannel& served, std::uint32_t id,
                                                    const build_wire::PutModelT& model) {
  by_handler([&] { handler.begin_model(model.options, model.text_size, model.weights_size); });
  std::vector<std::byte> piece(kMaxDataBytes);
  co_await served.read_data(
      id, model.text_size + model.weights_size,
      [&piece](std::size_t length) { return asio::buffer(piece.data(), length); },
      [this](asio::const_buffer bytes) {
        by_handler([&] {
          handler.add_to_model({static_cast<const std::byte*>(bytes.data()), bytes.size()});
        });
      });
  by_handler([&] { handler.end_model(); });
  const Bytes frame = answer_frame(id, build_wire::DoneT{});
  co_await served.write(id, frame);
}

asio::awaitable<void> BuildServer::Impl::build(FrameChannel& served, std::uint32_t id, std::uint64_t size) {
  // Memory for what arrives, not for what is announced.
  std::string decisions;
  co_await served.read_data(id, size, [&decisions](std::size_t length) {
    decisions.resize(decisions.size() + length);
    return asio::buffer(decisions.data() + decisions.size() - length, length);
  });
  BuildAnswer answer = by_handler([&] { return handler.build(decisions); });
  if (answer.failure) {
    build_wire::NotBuiltT failed;
    failed.misfit = answer.failure->misfit;
    failed.why = answer.failure->why.substr(0, kMostWords);
    const Bytes frame = answer_frame(id, std::move(failed));
    co_await served.write(id, frame);
    co_return;
  }
  build_wire::BuiltT built;
  built.module_size = answer.module.size();
  built.steps_size = answer.steps.size();
  std::vector<std::byte> data = std::move(answer.module);
  const auto steps = std::as_bytes(std::span(answer.steps));
  data.insert(data.end(), steps.begin(), steps.end());
  const Bytes frame = answer_frame(id, std::move(built));
  co_await served.write(id, frame, data);
}

BuildServer::BuildServer(BuildServerOptions options, BuildHandler& handler)
    : impl_(std::make_unique<Impl>(std::move(options), handler)) {}
BuildServer::~BuildServer() = default;

std::uint16_t BuildServer::port() const {
  return impl_->acceptor.local_endpoint().port();
}

void BuildServer::run() {
  std::exception_ptr failure;
  asio::co_spawn(impl_->io, impl_->accept_all(), asio::detached);
  asio::co_spawn(impl_->io, impl_->serve_all(), [&](std::exception_ptr error) {
    failure = error;
    impl_->end();
  });
  impl_->io.run();
  impl_->io.restart();
  if (failure) std::rethrow_exception(failure);
}

void BuildServer::stop() {
  asio::post(impl_->io, [this] { impl_->end(); });
}

}  // namespace gantry::rpc
