#include "rpc/server/executor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>

#include "device_runtime/builtins/packed_strings.h"
#include "device_runtime/src/cuda_module.h"
#include "device_runtime/src/data_type.h"
#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/memory.h"
#include "device_runtime/src/module_reader.h"
#include "device_runtime/src/session.h"
#include "module_generated.h"
#include "rpc/protocol/message.h"
#include "rpc/server/answer.h"
#include "rpc/server/attachments.h"
#include "rpc/server/benchmarks.h"
#include "rpc/server/descriptor_message.h"
#include "rpc/server/loaded_module.h"
#include "rpc/server/runtime_status.h"

namespace gantry::rpc {
namespace {

/// No more than the board has: an error that says so is better than the kernel's choice of whom to end.
std::uint64_t memory_left(std::uint64_t limit) {
  const auto available = runtime::available_memory_bytes();
  return available ? std::clamp<std::uint64_t>(*available, 1, limit) : limit;
}

class Executor {
 public:
  Executor(int socket, const ExecutorLimits& limits, SharedStep& step)
      : socket_(socket), limits_(limits), step_(step), next_handle_(limits.first_handle) {}
  int serve();

 private:
  bool read(void* buffer, std::size_t size, Attachments& attachments);
  void send(const Bytes& frame, int fd);
  void answer(std::uint32_t id, const Bytes& payload, const Attachments& attachments);
  Answer handle(std::uint32_t id, const wire::RequestT& request, const Attachments& attachments);
  Loaded& find(std::uint32_t handle);
  Finish gpu_state() const;
  runtime::ModuleContents contents(const wire::LoadModuleT& request, const Attachments& attachments);
  void allow_gpu(const module_format::Manifest& manifest, int index);
  wire::ResponseT load(const wire::LoadModuleT& request, const Attachments& attachments);
  wire::ResponseT set_input(const wire::SetInputT& request, const Attachments& attachments);
  wire::ResponseT run(const wire::RunT& request);
  Answer output(const wire::GetOutputT& request);
  std::function<bool(double)> progress_of(std::uint32_t id, std::uint32_t total);
  Answer benchmark(std::uint32_t id, const wire::BenchmarkT& request);

  int socket_;
  ExecutorLimits limits_;
  SharedStep& step_;
  std::optional<wire::ResponseT> board_;  ///< what the session has told of it
  std::uint32_t next_handle_;
  std::uint32_t asked_ = 0;  ///< the module that the request is of, which may be gone; 0: of none
  std::map<std::uint32_t, Loaded> loaded_;
};

int Executor::serve() {
  for (;;) {
    FrameHeaderBytes bytes;
    Attachments attachments;
    if (!read(bytes.data(), bytes.size(), attachments)) return 0;
    const FrameHeader header = decode_header(bytes);
    Bytes payload(header.length);
    if (!read(payload.data(), payload.size(), attachments)) return 0;
    if (header.type == FrameType::kResponse) {
      board_ = decode_response(payload);
      continue;
    }
    answer(header.id, payload, attachments);
  }
}

bool Executor::read(void* buffer, std::size_t size, Attachments& attachments) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = receive_with_descriptors(socket_, static_cast<char*>(buffer) + done, size - done,
                                                   attachments, kMaxAttachments, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

void Executor::send(const Bytes& frame, int fd) {
  OutgoingFrame outgoing(frame, fd < 0 ? std::vector<int>() : std::vector<int>{fd});
  while (!outgoing.done())
    if (outgoing.send_some(socket_, 0) < 0 && errno != EINTR) ::_exit(0);  // the session is gone
}

void Executor::answer(std::uint32_t id, const Bytes& payload, const Attachments& attachments) {
  Answer result;
  Bytes frame;
  try {
    result = handle(id, decode_request(payload), attachments);
    frame = encode_response(id, result.response);
  } catch (const Error& error) {
    frame = encode_response(id, make_failure(error.kind(), error.what()));
  } catch (const std::bad_alloc&) {
    frame =
        encode_response(id, make_failure(ErrorKind::kBoard, "out of memory: the session may use " +
                                                                std::to_string(limits_.memory_bytes >> 20) +
                                                                " MiB on this board"));
  }
  // A fault on a GPU costs the process all that it has there: the next module gets a fresh one.
  const Finish finish = gpu_state();
  step_.finished = finish;
  send(frame, result.payload.get());
  if (finish != kGoesOn) ::_exit(0);
}

/// A GPU is lost to all modules at once; whether the reply names the kernel, the one that ran it knows.
Finish Executor::gpu_state() const {
  const auto is_lost = [](const auto& entry) {
    const auto& gpu = entry.second.session->module().gpu();
    return gpu != nullptr && gpu->device()->lost();
  };
  if (!std::ranges::any_of(loaded_, is_lost)) return kGoesOn;
  const auto asked = loaded_.find(asked_);
  const bool named = asked == loaded_.end() || asked->second.session->executor().names_faults();
  return named ? kGpuLost : kGpuLostUnknownAt;
}

Answer Executor::handle(std::uint32_t id, const wire::RequestT& request, const Attachments& attachments) {
  asked_ = 0;
  switch (request.body.type) {
    case wire::RequestBody::LoadModule:
      return {load(*request.body.AsLoadModule(), attachments), {}};
    case wire::RequestBody::UnloadModule:
      find(request.body.AsUnloadModule()->handle);
      loaded_.erase(request.body.AsUnloadModule()->handle);
      return {make_response(wire::DoneT{}), {}};
    case wire::RequestBody::SetInput:
      return {set_input(*request.body.AsSetInput(), attachments), {}};
    case wire::RequestBody::Run:
      return {run(*request.body.AsRun()), {}};
    case wire::RequestBody::GetOutput:
      return output(*request.body.AsGetOutput());
    case wire::RequestBody::Benchmark:
      return benchmark(id, *request.body.AsBenchmark());
    default:
      throw Error(ErrorKind::kBug, "a request that no executor serves");
  }
}

std::int64_t nanoseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
}

Loaded& Executor::find(std::uint32_t handle) {
  asked_ = handle;
  const auto found = loaded_.find(handle);
  if (found == loaded_.end())
    throw Error(ErrorKind::kRequest, "this session has no loaded module with the handle " +
                                         std::to_string(handle) + ": load it first");
  return found->second;
}

std::unique_ptr<wire::TensorDescriptionT> describe(const module_format::Manifest& manifest,
                                                   const module_format::TensorInfo& info) {
  auto tensor = std::make_unique<wire::TensorDescriptionT>();
  tensor->name = info.name()->str();
  const DLDataType type = runtime::to_dlpack(static_cast<runtime::ElementType>(info.dtype()));
  tensor->type = std::make_unique<wire::ElementType>(type.code, type.bits);
  for (const std::uint32_t expression : *info.shape())
    tensor->shape.push_back(runtime::constant_dim(*manifest.dim_exprs()->Get(expression)).value_or(-1));
  return tensor;
}

int descriptor_of(const Attachments& attachments, std::size_t index) {
  if (index >= attachments.size()) throw Error(ErrorKind::kBug, "a request came without its data");
  return attachments[index].get();
}

/// The module's parts: its whole file in memory, or its manifest there and its segments in files.
runtime::ModuleContents Executor::contents(const wire::LoadModuleT& request, const Attachments& attachments) {
  runtime::SharedBytes sent =
      take(runtime::map_fd(descriptor_of(attachments, 0), request.whole ? "the module" : "its manifest"));
  if (request.whole) return take(runtime::ModuleContents::from_bytes(std::move(sent)));
  std::vector<runtime::SegmentSource> segments;
  for (const auto& name : request.segments) {
    runtime::SegmentSource& source = segments.emplace_back();
    source.digest = to_array(*name->digest);
    source.bytes = take(runtime::map_fd(descriptor_of(attachments, segments.size()), "a cached segment"));
    source.verified = true;  // by the session
  }
  return take(runtime::ModuleContents::from_parts(sent.bytes, segments));
}

/// Lets NVIDIA's driver start here, if there is a GPU that the module will run on: a client's word that there
/// is one lifts no limit. Nor does a module without code for GPUs, which loading refuses by itself.
void Executor::allow_gpu(const module_format::Manifest& manifest, int index) {
  constexpr auto kCuda = module_format::Device::Cuda;
  if (!runtime::has_variant_for(manifest, kCuda)) return;
  const auto* board = board_ ? board_->body.AsBoardDescription() : nullptr;
  if (!board) throw Error(ErrorKind::kBug, "the session has not said which GPUs there are");
  if (board->gpus.empty()) throw Error(ErrorKind::kRequest, board->gpu_problem);
  if (static_cast<std::size_t>(index) >= board->gpus.size())
    throw Error(ErrorKind::kRequest, "this machine has no GPU " + std::to_string(index) + ": it has " +
                                         std::to_string(board->gpus.size()) + ", numbered from 0");
  const auto& gpu = *board->gpus[static_cast<std::size_t>(index)];
  take(runtime::choose_variant(manifest, runtime::cpu_info(), kCuda,
                               static_cast<int>(gpu.compute_capability)));
  allow_gpu_addresses();
}

wire::ResponseT Executor::load(const wire::LoadModuleT& request, const Attachments& attachments) {
  const auto start = std::chrono::steady_clock::now();
  const runtime::DeviceName device = take(runtime::parse_device(request.device));
  runtime::ModuleContents parts = contents(request, attachments);
  if (device.type == module_format::Device::Cuda) allow_gpu(parts.manifest(), device.index);
  const auto module = take(runtime::Module::create(std::move(parts), device));
  runtime::SessionOptions options;
  options.threads = request.threads;
  options.cpus = request.cpus;
  options.memory_limit = memory_left(limits_.memory_bytes);
  Loaded loaded;
  loaded.threads = request.threads;
  loaded.cpus = request.cpus;
  loaded.session = take(runtime::Session::create(module, options));
  wire::ModuleLoadedT answer;
  answer.nanoseconds = nanoseconds_since(start);
  answer.handle = next_handle_++;
  answer.target = module->variant().target()->str();
  if (const auto* precision = module->variant().precision()) answer.precision = precision->str();
  for (const auto* info : *module->manifest().inputs())
    answer.inputs.push_back(describe(module->manifest(), *info));
  for (const auto* info : *module->manifest().outputs())
    answer.outputs.push_back(describe(module->manifest(), *info));
  loaded_.emplace(answer.handle, std::move(loaded));
  return make_response(std::move(answer));
}

wire::ResponseT Executor::set_input(const wire::SetInputT& request, const Attachments& attachments) {
  Loaded& loaded = find(request.handle);
  Input input;
  input.shape = request.shape;
  input.type = {request.type->code(), request.type->bits(), 1};
  if (request.byte_size > 0) input.memory = take(runtime::map_fd(descriptor_of(attachments, 0), "an input"));
  if (input.memory.bytes.size() < request.byte_size)
    throw Error(ErrorKind::kBug, "an input has less data than announced");
  input.bytes = request.byte_size;
  check(give_input(*loaded.session, request.index, input));
  loaded.inputs[request.index] = std::move(input);
  return make_response(wire::DoneT{});
}

wire::ResponseT Executor::run(const wire::RunT& request) {
  Loaded& loaded = find(request.handle);
  wire::RunFinishedT finished;
  const auto preparing = std::chrono::steady_clock::now();
  check(loaded.session->prepare());
  finished.preparing_nanoseconds = nanoseconds_since(preparing);
  const auto start = std::chrono::steady_clock::now();
  check(loaded.session->run());
  finished.nanoseconds = nanoseconds_since(start);
  return make_response(finished);
}

Answer Executor::output(const wire::GetOutputT& request) {
  Loaded& loaded = find(request.handle);
  const runtime::OutputView view = take(loaded.session->output(request.index));
  wire::OutputT answer;
  const DLDataType type = runtime::to_dlpack(view.type);
  answer.type = std::make_unique<wire::ElementType>(type.code, type.bits);
  answer.shape.assign(view.shape.begin(), view.shape.end());
  if (view.type == runtime::ElementType::kString) {
    const std::span numbers(reinterpret_cast<const std::uint64_t*>(view.data),
                            view.bytes / sizeof(std::uint64_t));
    const std::vector<std::byte> packed =
        take(runtime::pack_numbers(*loaded.session->known_strings(), numbers));
    answer.byte_size = packed.size();
    UniqueFd memory = sealed_copy(packed.data(), packed.size(), "an output");
    return {make_response(std::move(answer)), std::move(memory)};
  }
  answer.byte_size = view.bytes;
  UniqueFd memory = sealed_copy(view.data, view.bytes, "an output");
  return {make_response(std::move(answer)), std::move(memory)};
}

/// Tells the client every tenth of a second how much of `total` is done.
std::function<bool(double)> Executor::progress_of(std::uint32_t id, std::uint32_t total) {
  return [this, id, total, last = std::chrono::steady_clock::time_point{}](double done) mutable {
    const auto now = std::chrono::steady_clock::now();
    if (now - last < std::chrono::milliseconds(100)) return true;
    last = now;
    wire::BenchmarkProgressT event;
    event.total = total;
    event.done = static_cast<std::uint32_t>(done * total);
    send(encode_response(id, make_response(event), FrameType::kProgress), -1);
    return true;
  };
}

Answer Executor::benchmark(std::uint32_t id, const wire::BenchmarkT& request) {
  const std::uint32_t total = request.streams > 0 ? 100 : request.repeat;
  return serve_benchmark(find(request.handle), request, limits_.memory_bytes, progress_of(id, total));
}

}  // namespace

int run_executor(int socket, const ExecutorLimits& limits, SharedStep& step) {
  try {
    report_deaths(step);
    step.fork_error = give_up_rights(limits);
    limit_memory(limits);
    return Executor(socket, limits, step).serve();
  } catch (const std::exception&) {
    return 1;
  }
}

}  // namespace gantry::rpc
