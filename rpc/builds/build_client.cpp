#include "rpc/builds/build_client.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <atomic>
#include <exception>
#include <system_error>
#include <utility>

#include "rpc/protocol/channel.h"
#include "rpc/security/tls.h"
#include "rpc/visible_text.h"

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;
using tcp = asio::ip::tcp;

/// Within a message.
constexpr milliseconds kStall{60'000};
constexpr milliseconds kUnacknowledged{120'000};

struct Answer {
  build_wire::ResponseT response;
  std::vector<std::byte> data;
};

}  // namespace

struct BuildClient::Impl {
  explicit Impl(BuildClientOptions given) : options(std::move(given)) {}

  BuildClientOptions options;
  asio::io_context io{1};
  TlsContext tls;
  std::unique_ptr<FrameChannel> channel;
  std::uint32_t next_id = 1;
  std::atomic<bool> interrupted = false;
  bool dead = false;

  Error broken(const std::string& why) const {
    return Error(ErrorKind::kReconnect, "compile host " + options.address + ": " + why);
  }
  void abort();
  Answer call(asio::awaitable<Answer> task, milliseconds timeout);
  asio::awaitable<Answer> connect();
  asio::awaitable<void> shake_hands(TlsStream& stream);
  asio::awaitable<Answer> exchange(build_wire::RequestT request, std::span<const std::byte> data);
  asio::awaitable<Answer> receive(std::uint32_t id);
};

/// In the thread of `io`. What is under way fails, where there is a connection; before that it is left as it
/// is.
void BuildClient::Impl::abort() {
  if (channel)
    channel->close();
  else
    io.stop();
}

/// Runs one exchange under a deadline. Whatever breaks it makes the client useless.
Answer BuildClient::Impl::call(asio::awaitable<Answer> task, milliseconds timeout) {
  if (dead) throw broken("the connection was lost earlier");
  dead = true;  // until this has gone well
  std::exception_ptr failure;
  Answer answer;
  bool done = false, late = false;
  io.restart();
  Watchdog watchdog(io.get_executor(), timeout, [&] {
    late = true;
    abort();
  });
  asio::co_spawn(io, std::move(task), [&](std::exception_ptr error, Answer value) {
    failure = error;
    answer = std::move(value);
    done = true;
  });
  if (interrupted) abort();
  while (!done && io.run_one() > 0) {
  }
  if (interrupted) throw broken("it is not needed any more");
  if (late) throw broken("no answer within " + std::to_string(timeout.count() / 1000) + " s");
  if (!done) throw broken("the connection broke");
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const Error& error) {
    throw Error(error.kind(), "compile host " + options.address + ": " + error.what());
  } catch (const std::exception& error) {
    throw broken(std::string("the connection broke: ") + error.what());
  }
  dead = false;
  return answer;
}

asio::awaitable<void> BuildClient::Impl::shake_hands(TlsStream& stream) {
  try {
    co_await stream.handshake();
  } catch (const TlsError& error) {
    if (error.reason() == TlsError::Reason::kKeyRefused)
      throw Error(ErrorKind::kReconnect, "it refused the key of its lease");
    throw Error(ErrorKind::kReconnect, std::string("the encrypted connection failed: ") + error.what());
  }
}

asio::awaitable<Answer> BuildClient::Impl::connect() {
  const std::size_t colon = options.address.rfind(':');
  std::string host = options.address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (colon == std::string::npos || host.empty() || colon + 1 == options.address.size())
    throw Error(ErrorKind::kRequest, "that is no address, HOST:PORT");
  tcp::resolver resolver(io);
  std::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  const auto endpoints = co_await resolver.async_resolve(host, options.address.substr(colon + 1), token);
  if (error) throw Error(ErrorKind::kReconnect, "its name is not known here (" + error.message() + ")");
  tcp::socket socket(io);
  co_await asio::async_connect(socket, endpoints, token);
  if (error) throw Error(ErrorKind::kReconnect, "cannot connect (" + error.message() + ")");
  socket.set_option(tcp::no_delay(true));
  notice_vanished_peer(socket.native_handle(), kUnacknowledged);
  tls = make_client_context(options.key);
  auto stream = std::make_unique<TlsStream>(std::move(socket), tls.get(), TlsStream::Role::kClient);
  co_await shake_hands(*stream);
  channel = std::make_unique<FrameChannel>(std::move(stream));
  channel->set_stall_timeout(kStall);
  build_wire::HelloT hello;
  hello.version = kBuildProtocolVersion;
  hello.generator = options.generator;
  hello.client = "gantry";
  build_wire::RequestT request = with_body<build_wire::RequestT>(std::move(hello));
  Answer answer = co_await exchange(std::move(request), {});
  const auto* welcome = answer.response.body.AsWelcome();
  if (!welcome || welcome->version != kBuildProtocolVersion)
    throw Error(ErrorKind::kBug, "its first answer is no welcome");
  co_return answer;
}

asio::awaitable<Answer> BuildClient::Impl::exchange(build_wire::RequestT request,
                                                    std::span<const std::byte> data) {
  const std::uint32_t id = next_id++;
  const Bytes frame = encode_build_request(id, request);
  std::exception_ptr failure;
  try {
    co_await channel->write(id, frame, data);
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  if (!failure) {
    Answer answer = co_await receive(id);
    co_return answer;
  }
  // A host that refuses a model half-way has said why before it closed.
  std::optional<Error> said;
  try {
    (void)co_await receive(id);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kReconnect) said = error;
  } catch (const std::exception&) {
  }
  if (said) throw Error(*said);
  std::rethrow_exception(failure);
}

asio::awaitable<Answer> BuildClient::Impl::receive(std::uint32_t id) {
  const auto header = co_await channel->read_header();
  if (!header) throw Error(ErrorKind::kReconnect, "it closed the connection");
  if (header->type != FrameType::kResponse) throw Error(ErrorKind::kBug, "it sent what was not asked for");
  const Bytes payload = co_await channel->read_payload(*header);
  Answer answer;
  answer.response = decode_build_response(payload);
  // Id 0 speaks for the whole connection: the host ends it and says why.
  if (const auto* failure = answer.response.body.AsFailure())
    throw Error(ErrorKind::kBoard, visible_text(failure->message, Lines::kOne));
  if (header->id != id) throw Error(ErrorKind::kBug, "it answered another request");
  const std::uint64_t size = following_bytes(answer.response);
  if (const auto* built = answer.response.body.AsBuilt();
      built && built->module_size > options.most_module_bytes)
    throw Error(ErrorKind::kBug, "it sent a program that is larger than it can be");
  // What a host merely announces costs no memory: more than this is found as it arrives.
  constexpr std::uint64_t kMostAhead = std::uint64_t{64} << 20;
  std::vector<std::byte>& data = answer.data;
  data.reserve(std::min(size, kMostAhead));
  co_await channel->read_data(id, size, [&data](std::size_t length) {
    data.resize(data.size() + length);
    return asio::buffer(data.data() + data.size() - length, length);
  });
  co_return answer;
}

BuildClient::BuildClient(BuildClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
BuildClient::~BuildClient() {
  if (impl_->channel) impl_->channel->close();
}

void BuildClient::connect() {
  (void)impl_->call(impl_->connect(), impl_->options.connect_timeout);
}

void BuildClient::put_model(const std::string& options, std::span<const std::byte> bytes,
                            std::uint64_t text_size) {
  build_wire::PutModelT model;
  model.options = options;
  model.text_size = text_size;
  model.weights_size = bytes.size() - text_size;
  const Answer answer = impl_->call(impl_->exchange(with_body<build_wire::RequestT>(std::move(model)), bytes),
                                    impl_->options.build_timeout);
  if (!answer.response.body.AsDone())
    throw Error(ErrorKind::kBug,
                "compile host " + impl_->options.address + ": an answer of an unexpected kind");
}

BuildAnswer BuildClient::build(std::string_view decisions, milliseconds timeout) {
  build_wire::BuildT wanted;
  wanted.size = decisions.size();
  Answer answer = impl_->call(impl_->exchange(with_body<build_wire::RequestT>(std::move(wanted)),
                                              std::as_bytes(std::span(decisions))),
                              timeout.count() > 0 ? timeout : impl_->options.build_timeout);
  BuildAnswer result;
  if (const auto* failed = answer.response.body.AsNotBuilt()) {
    result.failure = {failed->misfit, visible_text(failed->why, Lines::kOne)};
    return result;
  }
  const auto* built = answer.response.body.AsBuilt();
  if (!built)
    throw Error(ErrorKind::kBug,
                "compile host " + impl_->options.address + ": an answer of an unexpected kind");
  const auto* steps = reinterpret_cast<const char*>(answer.data.data()) + built->module_size;
  result.steps.assign(steps, built->steps_size);
  answer.data.resize(built->module_size);
  result.module = std::move(answer.data);
  return result;
}

void BuildClient::interrupt() noexcept {
  impl_->interrupted = true;
  asio::post(impl_->io, [this] { impl_->abort(); });
}

}  // namespace gantry::rpc
