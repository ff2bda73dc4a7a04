#include <asio/co_spawn.hpp>
#include <asio/connect.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "rpc/client/client_impl.h"
#include "rpc/client/convert.h"
#include "rpc/visible_text.h"

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;
using tcp = asio::ip::tcp;

constexpr char kDefaultPort[] = "7453";
/// Over the board's own deadline, so that its better message arrives first.
constexpr milliseconds kDeadlineSlack{5000};
/// A board that takes nothing for so long is gone. It reads while this client sends, but may have to wait for
/// its disk.
constexpr milliseconds kUnacknowledged{120'000};

struct HostPort {
  std::string host, port;
};

HostPort split_address(const std::string& address) {
  HostPort result;
  const std::size_t bracket = address.starts_with('[') ? address.find(']') : std::string::npos;
  const std::size_t colon = address.find(':', bracket == std::string::npos ? 0 : bracket);
  if (bracket != std::string::npos)
    result.host = address.substr(1, bracket - 1);
  else
    result.host = address.substr(0, colon);
  result.port = colon == std::string::npos ? kDefaultPort : address.substr(colon + 1);
  const bool digits = !result.port.empty() && result.port.size() <= 5 &&
                      result.port.find_first_not_of("0123456789") == std::string::npos;
  if (result.host.empty() || !digits || std::stoi(result.port) > 65535 || std::stoi(result.port) == 0)
    throw Error(ErrorKind::kRequest,
                "'" + address + "' is not a board's address; write HOST:PORT, e.g. 192.168.1.20:7453");
  return result;
}

}  // namespace

wire::ResponseT BoardClient::Impl::finish(asio::awaitable<wire::ResponseT> task) {
  std::optional<wire::ResponseT> result;
  std::exception_ptr failure;
  bool done = false;
  asio::co_spawn(io, std::move(task), [&](std::exception_ptr error, wire::ResponseT value) {
    failure = error;
    result = std::move(value);
    done = true;
  });
  io.restart();
  while (!done && io.run_one() > 0) {
  }
  if (failure) std::rethrow_exception(failure);
  return std::move(*result);
}

wire::ResponseT BoardClient::Impl::call(asio::awaitable<wire::ResponseT> task, milliseconds timeout) {
  if (dead) throw broken("the connection was lost earlier; connect again");
  Watchdog call_watchdog(io.get_executor(), timeout, [this] { channel->close(); });
  struct Watched {
    Watchdog*& current;
    ~Watched() { current = nullptr; }
  } watched{watchdog};
  watchdog = &call_watchdog;
  try {
    return finish(std::move(task));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kReconnect || error.kind() == ErrorKind::kBug) dead = true;
    throw Error(error.kind(), named() + ": " + error.what(), error.unsupported());
  } catch (const std::exception& error) {
    dead = true;
    if (call_watchdog.expired())
      throw broken("no answer within " + std::to_string(timeout.count() / 1000) +
                   " s; check the board and the network");
    throw broken(std::string("the connection broke: ") + error.what());
  }
}

asio::awaitable<std::unique_ptr<Stream>> BoardClient::Impl::open_stream(tcp::socket socket) {
  socket.set_option(tcp::no_delay(true));
  notice_vanished_peer(socket.native_handle(), kUnacknowledged);
  if (!options.key) co_return make_plain_stream(std::move(socket));
  tls = make_client_context(*options.key);
  auto stream = std::make_unique<TlsStream>(std::move(socket), tls.get(), TlsStream::Role::kClient);
  try {
    co_await stream->handshake();
  } catch (const TlsError& error) {
    const std::string key = "(identity " + options.key->identity + ")";
    if (error.reason() == TlsError::Reason::kKeyRefused)
      throw Error(ErrorKind::kReconnect,
                  "the board refused the key " + key + "; give the file of a key that its server has");
    if (error.reason() == TlsError::Reason::kPeerHasNoKey)
      throw Error(ErrorKind::kReconnect,
                  "the board's server runs without a key: connect without one, or start it with --key");
    if (error.reason() == TlsError::Reason::kNotTls)
      throw Error(ErrorKind::kReconnect,
                  "what answers there is not gantry-device (no TLS); check the address");
    throw Error(ErrorKind::kReconnect, std::string("the encrypted connection failed: ") + error.what());
  }
  co_return stream;
}

asio::awaitable<void> BoardClient::Impl::connect() {
  const HostPort place = split_address(options.address);
  tcp::resolver resolver(io);
  std::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  const auto endpoints = co_await resolver.async_resolve(place.host, place.port, token);
  if (error) throw Error(ErrorKind::kReconnect, "the host name is not known (" + error.message() + ")");
  tcp::socket socket(io);
  co_await asio::async_connect(socket, endpoints, token);
  if (error)
    throw Error(ErrorKind::kReconnect,
                "cannot connect (" + error.message() + "); is 'gantry-device serve' running there?");
  channel = std::make_unique<FrameChannel>(co_await open_stream(std::move(socket)));
  co_await greet();
}

asio::awaitable<void> BoardClient::Impl::greet() {
  wire::HelloT hello;
  hello.version_min = hello.version_max = kProtocolVersion;
  hello.client = options.client_name;
  hello.features = kFeatureLeases;
  const wire::ResponseT answer = co_await exchange(make_request(std::move(hello)));
  const wire::WelcomeT* welcome = answer.body.AsWelcome();
  if (!welcome) throw Error(ErrorKind::kBug, "the board's first answer is not a welcome");
  if (welcome->version != kProtocolVersion)
    throw Error(ErrorKind::kBoard,
                "it chose version " + std::to_string(welcome->version) +
                    " of the protocol, which this gantry did not offer; use the same version of "
                    "gantry and gantry-device");
  board_features = welcome->features;
}

void BoardClient::Impl::hear_progress(wire::ResponseT& response, const BenchmarkProgress& progress) {
  if (const auto* event = response.body.AsBenchmarkProgress(); event && progress)
    progress(event->done, event->total);
  if (auto* queue = response.body.AsLeaseQueue()) {
    if (watchdog) watchdog->restart();
    if (lease_progress) lease_progress(from_wire(std::move(*queue)));
  }
  if (auto* told = response.body.AsMeasuredBeside()) beside = std::move(*told);
}

asio::awaitable<void> BoardClient::Impl::receive_data(std::uint32_t id, std::uint64_t size,
                                                      std::vector<std::byte>& data) {
  // What a board merely announces costs no memory: more than this is found as it arrives.
  constexpr std::uint64_t kMostAhead = std::uint64_t{64} << 20;
  data.reserve(std::min(size, kMostAhead));
  co_await channel->read_data(id, size, [&data](std::size_t length) {
    data.resize(data.size() + length);
    return asio::buffer(data.data() + data.size() - length, length);
  });
}

asio::awaitable<wire::ResponseT> BoardClient::Impl::receive(std::uint32_t id, OutputData* data,
                                                            const BenchmarkProgress& progress) {
  for (;;) {
    const auto header = co_await channel->read_header();
    if (!header) throw Error(ErrorKind::kReconnect, "the board closed the connection");
    const Bytes payload = co_await channel->read_payload(*header);
    if (header->type == FrameType::kData && discarded_id == header->id) continue;
    if (header->type != FrameType::kResponse && header->type != FrameType::kProgress)
      throw Error(ErrorKind::kBug, "the board sent a frame that was not asked for");
    wire::ResponseT response;
    try {
      response = decode_response(payload);
    } catch (const Error& error) {
      if (!error.unsupported()) throw;
      if (header->type == FrameType::kProgress) continue;  // of a kind that only newer clients show
      discarded_id = header->id;                           // nobody here knows how many data follow
      throw;
    }
    // Id 0 speaks for the whole connection: the board ends it and says why.
    if (const auto* failure = response.body.AsFailure(); failure && (header->id == id || header->id == 0)) {
      const Error error = to_error(*failure);
      throw Error(error.kind(), visible_text(error.what(), Lines::kOne), error.unsupported());
    }
    if (header->id != id) throw Error(ErrorKind::kBug, "the board answered another request");
    if (header->type == FrameType::kProgress) {
      hear_progress(response, progress);
      continue;
    }
    const std::uint64_t size = following_bytes(response);
    const wire::OutputT* output = response.body.AsOutput();
    if (size == 0 && !output) co_return response;
    if (response.body.AsBenchmarkFinished()) {
      std::vector<std::byte> result;
      co_await receive_data(id, size, result);
      co_return decode_long_result({reinterpret_cast<const std::uint8_t*>(result.data()), result.size()});
    }
    if (!data || !output) throw Error(ErrorKind::kBug, "the board sent data that was not asked for");
    try {
      data->accept(*output);
    } catch (const Error&) {
      discarded_id = id;
      throw;
    }
    co_await receive_data(id, size, data->bytes);
    co_return response;
  }
}

asio::awaitable<wire::ResponseT> BoardClient::Impl::exchange(wire::RequestT request,
                                                             std::span<const std::byte> data,
                                                             OutputData* answer_data,
                                                             BenchmarkProgress progress) {
  const std::uint32_t id = next_id++;
  const Bytes frame = encode_request(id, request);
  std::exception_ptr write_failure;
  try {
    co_await channel->write(id, frame, data);
  } catch (const std::exception&) {
    write_failure = std::current_exception();
  }
  // A board that refuses an upload half-way has said why before it closed.
  if (write_failure) {
    try {
      co_await receive(id, nullptr, {});
    } catch (const Error&) {
      throw;
    } catch (const std::exception&) {
    }
    std::rethrow_exception(write_failure);
  }
  co_return co_await receive(id, answer_data, progress);
}

milliseconds BoardClient::Impl::long_timeout(milliseconds deadline) const {
  // Loading and starting may wait for other requests of this session; the board enforces the deadline itself.
  const auto board = milliseconds(board_deadline_ms ? board_deadline_ms : 24 * 3600 * 1000u);
  return (deadline.count() > 0 ? std::min(deadline, board) : board) + options.request_timeout +
         kDeadlineSlack;
}

/// Runs what opens the connection of `self`, which is this, under the connection's deadline.
std::unique_ptr<BoardClient> BoardClient::Impl::open(std::unique_ptr<Impl> self, asio::awaitable<void> task) {
  bool timed_out = false;
  bool done = false;
  std::exception_ptr failure;
  // The watchdog stops the loop: a name, a TCP connection or a handshake that never comes has no stream to
  // close.
  Watchdog watchdog(io.get_executor(), options.connect_timeout, [&] {
    timed_out = true;
    io.stop();
  });
  asio::co_spawn(io, std::move(task), [&](std::exception_ptr error) {
    failure = error;
    done = true;
  });
  while (!done && io.run_one() > 0) {
  }
  if (!done && timed_out)
    throw broken("no answer within " + std::to_string(options.connect_timeout.count()) +
                 " ms; check the address and the network");
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const Error& error) {
    throw Error(error.kind(), named() + ": " + error.what(), error.unsupported());
  } catch (const std::exception& error) {
    throw broken(std::string("the connection broke: ") + error.what());
  }
  return std::unique_ptr<BoardClient>(new BoardClient(std::move(self)));
}

std::unique_ptr<BoardClient> BoardClient::connect(const ConnectOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  split_address(options.address);
  Impl& opened = *impl;
  return opened.open(std::move(impl), opened.connect());
}

std::unique_ptr<BoardClient> BoardClient::adopt(int socket, const ConnectOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->channel = std::make_unique<FrameChannel>(make_plain_stream(Socket(impl->io, {AF_UNIX, 0}, socket)));
  Impl& opened = *impl;
  return opened.open(std::move(impl), opened.greet());
}

BoardClient::BoardClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BoardClient::~BoardClient() {
  if (impl_->channel) impl_->channel->close();
}

const std::string& BoardClient::address() const {
  return impl_->options.address;
}

}  // namespace gantry::rpc
