#include "rpc/client/client.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rpc/client/client_impl.h"
#include "rpc/client/convert.h"
#include "rpc/client/module_layout.h"

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;

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

/// Sends a segment's bytes from `offset` on; `on_sent` hears how many of them have gone.
void BoardClient::Impl::send_segment(std::span<const std::byte> file, const ModuleSegment& segment,
                                     std::uint64_t offset,
                                     const std::function<void(std::uint64_t)>& on_sent) {
  wire::UploadSegmentT upload;
  upload.digest = to_wire(segment.digest);
  upload.size = segment.size;
  upload.offset = offset;
  const auto task = [&]() -> asio::awaitable<wire::ResponseT> {
    const std::uint32_t id = next_id++;
    const Bytes frame = encode_request(id, make_request(std::move(upload)));
    const auto bytes = file.subspan(segment.offset + offset, segment.size - offset);
    try {
      co_await channel->write(id, frame, bytes, on_sent);
    } catch (const std::system_error&) {
      // The board may have said why before it closed; if it has not, receive() fails too.
    }
    co_return co_await receive_verdict(id);
  };
  // Sending may take as long as it moves; a network that stands still is noticed by TCP.
  const wire::ResponseT answer = call(task(), milliseconds(0));
  if (!answer.body.AsDone()) throw broken("an answer of an unexpected kind to an upload");
}

/// The answer to an upload of which nothing more is to be sent.
asio::awaitable<wire::ResponseT> BoardClient::Impl::receive_verdict(std::uint32_t id) {
  const milliseconds most = long_timeout({});
  const Watchdog silence(io.get_executor(), most, [this] { channel->close(); });
  try {
    co_return co_await receive(id, nullptr, {});
  } catch (const std::exception&) {
    if (!silence.expired()) throw;
  }
  throw Error(ErrorKind::kReconnect, "no answer to an upload within " + std::to_string(most.count() / 1000) +
                                         " s; check the board and the network");
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
    const auto on_sent = [&](std::uint64_t sent) {
      if (progress) progress(done + sent, total);
    };
    std::uint64_t offset = states.held[i];
    try {
      send_segment(file, segment, offset, on_sent);
    } catch (const Error& error) {
      // What an earlier upload had left is damaged or gone, or another session goes on with it.
      if (error.kind() != ErrorKind::kRetry || offset == 0) throw;
      done += segment.size - offset;
      offset = 0;
      total += segment.size;
      send_segment(file, segment, offset, on_sent);
    }
    done += segment.size - offset;
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
  if (!has_fitting_bytes(type.code, type.bits, shape, bytes.size()))
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
  if (finished.nanoseconds < 0 || finished.preparing_nanoseconds < 0)
    throw Error(ErrorKind::kBug, impl_->named() + ": the time of a run is negative");
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

bool BoardClient::has_leases() const {
  return (impl_->board_features & kFeatureLeases) != 0;
}

void BoardClient::Impl::require_leases() const {
  if (!(board_features & kFeatureLeases))
    throw Error(
        ErrorKind::kRequest,
        named() + ": its gantry-device does not know leases; put the one there that came with this gantry",
        /*unsupported=*/true);
}

Lease BoardClient::take_lease(const LeaseOptions& options, const LeaseProgress& progress) {
  impl_->require_leases();
  wire::TakeLeaseT request;
  request.priority = static_cast<std::uint8_t>(options.priority);
  request.purpose = options.purpose.substr(0, kMaxPurpose);
  request.longest_wait_ms = to_deadline(options.longest_wait);
  impl_->lease_progress = progress;
  // Each word of the board's that it still waits begins the time anew.
  const auto taken =
      impl_->ask<wire::LeaseTakenT>(make_request(std::move(request)), impl_->options.request_timeout);
  return {taken.token, std::chrono::milliseconds(taken.turn_ms), to_time(taken.waited_ms)};
}

void BoardClient::join_lease(std::uint64_t token, LeaseProgress progress) {
  impl_->require_leases();
  wire::JoinLeaseT request;
  request.token = token;
  impl_->ask<wire::DoneT>(make_request(request), impl_->options.request_timeout);
  impl_->lease_progress = std::move(progress);
}

void BoardClient::release_lease() {
  impl_->require_leases();
  impl_->ask<wire::DoneT>(make_request(wire::ReleaseLeaseT{}), impl_->options.request_timeout);
}

MeasuringQueue BoardClient::leases() {
  impl_->require_leases();
  return from_wire(
      impl_->ask<wire::LeaseQueueT>(make_request(wire::GetLeasesT{}), impl_->options.request_timeout));
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
  impl_->beside = {};
  auto finished = impl_->ask<wire::BenchmarkFinishedT>(
      make_request(to_wire(handle, options)), impl_->long_timeout(options.deadline), {}, nullptr, progress);
  BenchmarkResult result = impl_->result_of(std::move(finished));
  result.waited = to_time(impl_->beside.waited_ms);
  result.others = from_wire(std::move(impl_->beside));
  result.board = board_info();
  return result;
}

}  // namespace gantry::rpc
