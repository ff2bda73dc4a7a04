#include "rpc/client/client.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <cstring>
#include <map>

#include "rpc/client/convert.h"
#include "rpc/client/module_layout.h"
#include "rpc/protocol/channel.h"
#include "rpc/security/tls.h"
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

std::unique_ptr<wire::SegmentNameT> name_of(const ModuleSegment& segment) {
  auto name = std::make_unique<wire::SegmentNameT>();
  name->digest = to_wire(segment.digest);
  name->size = segment.size;
  return name;
}

/// A file mapped for reading; its bytes go to the socket without a copy of their own.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    const bool usable = fd >= 0 && ::fstat(fd, &status) == 0;
    const std::string why = usable ? "is not a regular file" : std::strerror(errno);
    if (usable && S_ISREG(status.st_mode) && status.st_size > 0) {
      size_ = static_cast<std::size_t>(status.st_size);
      address_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0) ::close(fd);
    if (address_ == MAP_FAILED)
      throw Error(ErrorKind::kRequest, "cannot read the module " + path.string() + ": " + why);
  }
  ~MappedFile() { ::munmap(address_, size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(address_), size_}; }

 private:
  void* address_ = MAP_FAILED;
  std::size_t size_ = 0;
};

}  // namespace

struct ModuleHandle::Contents {
  std::vector<std::byte> manifest;
  std::vector<ModuleSegment> segments;
  UploadReport report;
};
ModuleHandle::ModuleHandle() : contents_(std::make_unique<Contents>()) {}
ModuleHandle::~ModuleHandle() = default;
ModuleHandle::ModuleHandle(ModuleHandle&&) noexcept = default;
ModuleHandle& ModuleHandle::operator=(ModuleHandle&&) noexcept = default;
const UploadReport& ModuleHandle::report() const {
  return contents_->report;
}

/// Where an output's bytes go, once `accept` has seen what is announced and not thrown.
struct OutputData {
  std::function<void(const wire::OutputT&)> accept;
  std::vector<std::byte> bytes;
};

struct BoardClient::Impl {
  asio::io_context io{1};
  ConnectOptions options;
  TlsContext tls;
  std::unique_ptr<FrameChannel> channel;
  std::uint32_t next_id = 1;
  std::uint32_t board_deadline_ms = 0;
  std::uint64_t board_features = 0;
  std::map<std::uint32_t, std::vector<TensorDescription>> outputs;  ///< of each loaded module
  std::optional<std::uint32_t>
      discarded_id;  ///< whose data frames belong to an answer that nobody here knows
  bool dead = false;

  /// "board pi (192.168.1.20:7453)"; the label alone where there is no address.
  std::string named() const {
    if (options.address.empty()) return options.label;  // not a board, but this machine
    const bool has_name = !options.label.empty() && options.label != options.address;
    return "board " + (has_name ? options.label + " (" + options.address + ")" : options.address);
  }
  Error broken(const std::string& why) const { return Error(ErrorKind::kReconnect, named() + ": " + why); }

  template <typename T>
  T finish(asio::awaitable<T> task);
  template <typename T>
  T call(asio::awaitable<T> task, milliseconds timeout);
  asio::awaitable<void> connect();
  asio::awaitable<void> greet();
  std::unique_ptr<BoardClient> open(std::unique_ptr<Impl> self, asio::awaitable<void> task);
  asio::awaitable<std::unique_ptr<Stream>> open_stream(tcp::socket socket);
  asio::awaitable<void> receive_data(std::uint32_t id, std::uint64_t size, std::vector<std::byte>& data);
  asio::awaitable<wire::ResponseT> receive(std::uint32_t id, OutputData* data,
                                           const BenchmarkProgress& progress);
  asio::awaitable<wire::ResponseT> exchange(wire::RequestT request, std::span<const std::byte> data = {},
                                            OutputData* answer_data = nullptr,
                                            BenchmarkProgress progress = {});
  template <typename Answer>
  Answer ask(wire::RequestT request, milliseconds timeout, std::span<const std::byte> data = {},
             OutputData* answer_data = nullptr, BenchmarkProgress progress = {});
  milliseconds long_timeout(milliseconds deadline) const;
  LoadedModule loaded(wire::ModuleLoadedT answer);
  BenchmarkResult result_of(wire::BenchmarkFinishedT finished) const;
  void check_output(std::uint32_t handle, std::int32_t index, const wire::OutputT& output) const;
  void send_missing(std::span<const std::byte> file, ModuleHandle::Contents& module,
                    const UploadProgress& progress);
};

template <typename T>
T BoardClient::Impl::finish(asio::awaitable<T> task) {
  std::optional<T> result;
  std::exception_ptr failure;
  bool done = false;
  asio::co_spawn(io, std::move(task), [&](std::exception_ptr error, T value) {
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

/// Runs one exchange under a deadline. Whatever breaks the stream makes the client useless.
template <typename T>
T BoardClient::Impl::call(asio::awaitable<T> task, milliseconds timeout) {
  if (dead) throw broken("the connection was lost earlier; connect again");
  Watchdog watchdog(io.get_executor(), timeout, [this] { channel->close(); });
  try {
    return finish(std::move(task));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kReconnect || error.kind() == ErrorKind::kBug) dead = true;
    throw Error(error.kind(), named() + ": " + error.what(), error.unsupported());
  } catch (const std::exception& error) {
    dead = true;
    if (watchdog.expired())
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
      throw Error(ErrorKind::kReconnect, "the board refused the key " + key +
                                             "; give the key file that its server was started with");
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
      if (const auto* event = response.body.AsBenchmarkProgress(); event && progress)
        progress(event->done, event->total);
      continue;
    }
    const std::uint64_t size = following_bytes(response);
    if (size == 0) co_return response;
    if (response.body.AsBenchmarkFinished()) {
      std::vector<std::byte> result;
      co_await receive_data(id, size, result);
      co_return decode_long_result({reinterpret_cast<const std::uint8_t*>(result.data()), result.size()});
    }
    const wire::OutputT* output = response.body.AsOutput();
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

template <typename Answer>
Answer BoardClient::Impl::ask(wire::RequestT request, milliseconds timeout, std::span<const std::byte> data,
                              OutputData* answer_data, BenchmarkProgress progress) {
  wire::ResponseT response =
      call(exchange(std::move(request), data, answer_data, std::move(progress)), timeout);
  auto* answer = response.body.type == wire::ResponseBodyUnionTraits<Answer>::enum_value
                     ? static_cast<Answer*>(response.body.value)
                     : nullptr;
  if (!answer) throw Error(ErrorKind::kBug, named() + ": an answer of an unexpected kind");
  return std::move(*answer);
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

BoardInfo BoardClient::board_info(bool gpus) {
  wire::GetBoardInfoT request;
  request.gpus = gpus;
  auto answer =
      impl_->ask<wire::BoardDescriptionT>(make_request(std::move(request)), impl_->options.request_timeout);
  impl_->board_deadline_ms = answer.deadline_ms;
  return from_wire(std::move(answer));
}

std::chrono::nanoseconds BoardClient::ping() {
  const auto start = std::chrono::steady_clock::now();
  impl_->ask<wire::PongT>(make_request(wire::PingT{}), impl_->options.request_timeout);
  return std::chrono::steady_clock::now() - start;
}

void BoardClient::Impl::send_missing(std::span<const std::byte> file, ModuleHandle::Contents& module,
                                     const UploadProgress& progress) {
  wire::QuerySegmentsT query;
  for (const ModuleSegment& segment : module.segments) {
    query.segments.push_back(name_of(segment));
  }
  const auto states = ask<wire::SegmentStatesT>(make_request(std::move(query)), options.request_timeout);
  if (states.held.size() != module.segments.size())
    throw broken("an answer about segments has the wrong length");
  std::uint64_t total = 0, done = 0;
  for (std::size_t i = 0; i < states.held.size(); ++i)
    total += module.segments[i].size - std::min(states.held[i], module.segments[i].size);
  if (progress) progress(0, total);
  for (std::size_t i = 0; i < states.held.size(); ++i) {
    const ModuleSegment& segment = module.segments[i];
    if (states.held[i] >= segment.size) continue;
    wire::UploadSegmentT upload;
    upload.digest = to_wire(segment.digest);
    upload.size = segment.size;
    upload.offset = states.held[i];
    const auto task = [&]() -> asio::awaitable<wire::ResponseT> {
      const std::uint32_t id = next_id++;
      const Bytes frame = encode_request(id, make_request(std::move(upload)));
      const auto bytes = file.subspan(segment.offset + states.held[i], segment.size - states.held[i]);
      try {
        co_await channel->write(id, frame, bytes, [&](std::uint64_t sent) {
          if (progress) progress(done + sent, total);
        });
      } catch (const std::system_error&) {
        // The board may have said why before it closed; if it has not, receive() fails too.
      }
      co_return co_await receive(id, nullptr, {});
    };
    // An upload may take as long as it moves; a network that stands still is noticed by TCP.
    const wire::ResponseT answer = call(task(), milliseconds(0));
    if (!answer.body.AsDone()) throw broken("an answer of an unexpected kind to an upload");
    done += segment.size - states.held[i];
    module.report.segments_sent += 1;
  }
  module.report.sent_bytes = done;
}

ModuleHandle BoardClient::upload(std::span<const std::byte> module_file, const UploadProgress& progress) {
  const ModuleLayout layout = read_layout(module_file, "the module");
  ModuleHandle handle;
  ModuleHandle::Contents& module = *handle.contents_;
  const auto manifest = module_file.subspan(layout.manifest_offset, layout.manifest_size);
  module.manifest.assign(manifest.begin(), manifest.end());
  module.segments = layout.segments;
  module.report.module_bytes = module_file.size();
  module.report.segments = static_cast<std::uint32_t>(layout.segments.size());
  impl_->send_missing(module_file, module, progress);
  return handle;
}

ModuleHandle BoardClient::upload(const std::filesystem::path& module_file, const UploadProgress& progress) {
  const MappedFile file(module_file);
  read_layout(file.bytes(), module_file.string());  // for an error that names the file
  return upload(file.bytes(), progress);
}

LoadedModule BoardClient::Impl::loaded(wire::ModuleLoadedT answer) {
  LoadedModule module = from_wire(std::move(answer));
  outputs[module.handle] = module.outputs;
  return module;
}

/// Throws Error(kBoard) for an output that is none of the module's, before its bytes are taken.
void BoardClient::Impl::check_output(std::uint32_t handle, std::int32_t index,
                                     const wire::OutputT& output) const {
  const auto known = outputs.find(handle);
  if (known == outputs.end() || index < 0 || static_cast<std::size_t>(index) >= known->second.size()) return;
  const TensorDescription& declared = known->second[static_cast<std::size_t>(index)];
  bool fits = output.type->code() == declared.type.code && output.type->bits() == declared.type.bits &&
              output.shape.size() == declared.shape.size();
  for (std::size_t axis = 0; fits && axis < declared.shape.size(); ++axis)
    fits = declared.shape[axis] < 0 || declared.shape[axis] == output.shape[axis];
  if (!fits)
    throw Error(ErrorKind::kBoard,
                "its output " + std::to_string(index) + " of " + std::to_string(output.byte_size) +
                    " bytes has another type or shape than the module says: it is not taken");
}

LoadedModule BoardClient::load(const ModuleHandle& module, const LoadOptions& options) {
  const ModuleHandle::Contents& contents = *module.contents_;
  wire::LoadModuleT request;
  request.manifest_size = contents.manifest.size();
  for (const ModuleSegment& segment : contents.segments) {
    request.segments.push_back(name_of(segment));
  }
  request.threads = options.threads;
  request.cpus = options.cpus;
  request.device = options.device;
  return impl_->loaded(impl_->ask<wire::ModuleLoadedT>(make_request(std::move(request)),
                                                       impl_->long_timeout({}), contents.manifest));
}

LoadedModule BoardClient::load_whole(std::span<const std::byte> module_file, const LoadOptions& options) {
  wire::LoadModuleT request;
  request.whole = true;
  request.manifest_size = module_file.size();
  request.threads = options.threads;
  request.cpus = options.cpus;
  request.device = options.device;
  return impl_->loaded(impl_->ask<wire::ModuleLoadedT>(make_request(std::move(request)),
                                                       impl_->long_timeout({}), module_file));
}

void BoardClient::unload(std::uint32_t handle) {
  wire::UnloadModuleT request;
  request.handle = handle;
  impl_->outputs.erase(handle);
  impl_->ask<wire::DoneT>(make_request(request), impl_->options.request_timeout);
}

void BoardClient::set_input(std::uint32_t handle, std::int32_t index, ElementType type,
                            std::span<const std::int64_t> shape, std::span<const std::byte> bytes) {
  if (dense_bytes(type.bits, shape) != bytes.size())
    throw Error(ErrorKind::kRequest, "input " + std::to_string(index) + ": " + std::to_string(bytes.size()) +
                                         " bytes do not match its type and shape");
  wire::SetInputT request;
  request.handle = handle;
  request.index = index;
  request.type = std::make_unique<wire::ElementType>(type.code, type.bits);
  request.shape.assign(shape.begin(), shape.end());
  request.byte_size = bytes.size();
  impl_->ask<wire::DoneT>(make_request(std::move(request)), impl_->long_timeout({}), bytes);
}

RunTime BoardClient::run(std::uint32_t handle, std::chrono::milliseconds deadline) {
  wire::RunT request;
  request.handle = handle;
  request.deadline_ms = to_deadline(deadline);
  const auto finished = impl_->ask<wire::RunFinishedT>(make_request(request), impl_->long_timeout(deadline));
  return {std::chrono::nanoseconds(finished.nanoseconds),
          std::chrono::nanoseconds(finished.preparing_nanoseconds)};
}

Tensor BoardClient::get_output(std::uint32_t handle, std::int32_t index) {
  wire::GetOutputT request;
  request.handle = handle;
  request.index = index;
  OutputData data{[&](const wire::OutputT& output) { impl_->check_output(handle, index, output); }, {}};
  auto answer = impl_->ask<wire::OutputT>(make_request(request), impl_->long_timeout({}), {}, &data);
  Tensor tensor;
  tensor.bytes = std::move(data.bytes);
  tensor.type = {answer.type->code(), answer.type->bits()};
  tensor.shape = std::move(answer.shape);
  return tensor;
}

BenchmarkResult BoardClient::Impl::result_of(wire::BenchmarkFinishedT finished) const {
  try {
    BenchmarkResult result = from_wire(std::move(finished));
    if (result.samples_ms.empty())
      throw Error(ErrorKind::kBug, "the board's report of a benchmark holds no sample");
    return result;
  } catch (const Error& error) {
    throw Error(error.kind(), named() + ": " + error.what());
  }
}

BenchmarkResult BoardClient::benchmark(std::uint32_t handle, const BenchmarkOptions& options,
                                       const BenchmarkProgress& progress) {
  constexpr std::uint32_t kMost = kMaxControlBytes / sizeof(double);
  if (options.streams == 0 && options.repeat > kMost && !(impl_->board_features & kFeatureLongResults))
    throw Error(ErrorKind::kRequest, impl_->named() + ": its gantry-device could not send the result of " +
                                         std::to_string(options.repeat) + " samples, only of " +
                                         std::to_string(kMost) +
                                         " at most; put the one there that came with this gantry");
  auto finished = impl_->ask<wire::BenchmarkFinishedT>(
      make_request(to_wire(handle, options)), impl_->long_timeout(options.deadline), {}, nullptr, progress);
  BenchmarkResult result = impl_->result_of(std::move(finished));
  result.board = board_info();
  return result;
}

}  // namespace gantry::rpc
