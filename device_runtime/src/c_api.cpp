// gantry/runtime.h over the C++ classes.
#include <stdlib.h>
#include <string.h>

#include <mutex>
#include <new>

#include "device_runtime/src/c_api.h"
#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/module_format.h"
#include "device_runtime/src/session.h"
#include "device_runtime/src/sized_struct.h"
#include "gantry/runtime.h"

using gantry::module_format::Device;
using gantry::module_format::Manifest;
using gantry::runtime::AlignedBuffer;
using gantry::runtime::DeviceName;
using gantry::runtime::ElementType;
using gantry::runtime::failure;
using gantry::runtime::fill;
using gantry::runtime::fill_sized;
using gantry::runtime::is_struct_size;
using gantry::runtime::Module;
using gantry::runtime::ModuleContents;
using gantry::runtime::OutputMemory;
using gantry::runtime::OutputView;
using gantry::runtime::read_sized;
using gantry::runtime::Result;
using gantry::runtime::Session;
using gantry::runtime::SessionOptions;
using gantry::runtime::SharedBytes;
using gantry::runtime::Status;

/// A file's contents, and what has been loaded of them: a variant for each device that a session asked for.
struct GantryModule {
  ModuleContents contents;
  std::mutex mutex;
  std::vector<std::shared_ptr<const Module>> loaded;
  std::string target;  ///< of the variant for this CPU, or of the first if there is none
};

namespace {

thread_local std::string last_error;

}  // namespace

namespace gantry::runtime {

GantryStatus report(const Status& status) {
  last_error = status.message();
  return status.code();
}

Status null_argument(const char* function) {
  return failure(GANTRY_INVALID_ARGUMENT, "%s: an argument is null", function);
}

}  // namespace gantry::runtime

namespace {

using gantry::runtime::null_argument;
using gantry::runtime::report;

/// Whether there is code for a GPU, or for the emulated one.
bool is_for_gpus(const Manifest& manifest) {
  using gantry::runtime::has_variant_for;
  return has_variant_for(manifest, Device::Cuda) || has_variant_for(manifest, Device::CudaEmulated);
}

Status create_module(Result<ModuleContents> contents, GantryModule** out) {
  if (!contents.ok()) return contents.status();
  const Manifest& manifest = contents->manifest();
  auto module = std::make_unique<GantryModule>();
  module->contents = *contents;
  module->target = manifest.variants()->Get(0)->target()->str();
  // A module for GPUs alone is loaded when a session says on which; so is one whose CPUs are others.
  if (gantry::runtime::has_variant_for(manifest, Device::Cpu)) {
    auto loaded = Module::create(std::move(*contents));
    if (loaded.ok()) {
      module->target = (*loaded)->variant().target()->str();
      module->loaded.push_back(std::move(*loaded));
    } else if (loaded.status().code() != GANTRY_INCOMPATIBLE || !is_for_gpus(manifest)) {
      return loaded.status();
    }
  }
  *out = module.release();
  return Status();
}

/// The module's code for a device, loaded on first use.
Result<std::shared_ptr<const Module>> load_for(GantryModule& module, const DeviceName& device) {
  const std::lock_guard lock(module.mutex);
  for (const auto& loaded : module.loaded) {
    if (loaded->device() == device) return loaded;
  }
  auto loaded = Module::create(module.contents, device);
  if (loaded.ok()) module.loaded.push_back(*loaded);
  return loaded;
}

const gantry::module_format::TensorInfo* find_info(const GantryModule* module, int32_t index, bool input) {
  const auto& manifest = module->contents.manifest();
  const auto& list = input ? *manifest.inputs() : *manifest.outputs();
  return index < 0 || static_cast<uint32_t>(index) >= list.size() ? nullptr
                                                                  : list.Get(static_cast<uint32_t>(index));
}

Status describe(const GantryModule* module, int32_t index, bool input, GantryTensorDescription& out) {
  const auto* info = find_info(module, index, input);
  if (info == nullptr) {
    return failure(GANTRY_INVALID_ARGUMENT, "there is no %s %d", input ? "input" : "output", index);
  }
  out = {};
  out.name = info->name()->c_str();
  out.dtype = gantry::runtime::to_dlpack(static_cast<ElementType>(info->dtype()));
  out.rank = static_cast<int32_t>(info->shape()->size());
  for (int32_t axis = 0; axis < out.rank; ++axis) {
    const auto* program =
        module->contents.manifest().dim_exprs()->Get(info->shape()->Get(static_cast<uint32_t>(axis)));
    out.shape[axis] = gantry::runtime::constant_dim(*program).value_or(-1);
  }
  return Status();
}

Status describe_sized(const char* function, const GantryModule* module, int32_t index, bool input,
                      GantryTensorDescription* out) {
  if (module == nullptr || out == nullptr) return null_argument(function);
  GantryTensorDescription description;
  GANTRY_TRY(describe(module, index, input, description));
  return fill_sized(function, out, description);
}

Status describe_0_1(const char* function, const GantryModule* module, int32_t index, bool input,
                    GantryTensorInfo* out) {
  if (module == nullptr || out == nullptr) return null_argument(function);
  GantryTensorDescription description;
  GANTRY_TRY(describe(module, index, input, description));
  memset(out, 0, sizeof *out);
  out->name = description.name;
  out->dtype = description.dtype;
  out->rank = description.rank;
  memcpy(out->shape, description.shape, sizeof out->shape);
  return Status();
}

Status create_session(GantryModule* module, const GantrySessionOptions* given, GantrySession** out) {
  if (module == nullptr || out == nullptr) return null_argument("gantry_session_create");
  *out = nullptr;
  SessionOptions options;
  DeviceName device;
  if (given != nullptr) {
    GantrySessionOptions known;
    GANTRY_TRY(read_sized("gantry_session_create", given, known));
    auto named = gantry::runtime::parse_device(known.device == nullptr ? "" : known.device);
    if (!named.ok()) return named.status();
    device = *named;
    if (known.cpu_count < 0 || (known.cpu_count > 0 && known.cpus == nullptr)) {
      return failure(GANTRY_INVALID_ARGUMENT, "gantry_session_create: cpu_count without cpus");
    }
    if (known.threads > 0 && known.cpu_count > known.threads) {
      return failure(GANTRY_INVALID_ARGUMENT, "%d cpus for %d threads", known.cpu_count, known.threads);
    }
    options.threads = known.threads;
    if (known.cpus != nullptr) options.cpus.assign(known.cpus, known.cpus + known.cpu_count);
  }
  auto loaded = load_for(*module, device);
  if (!loaded.ok()) return loaded.status();
  auto session = Session::create(*loaded, options);
  if (!session.ok()) return session.status();
  *out = new GantrySession{std::move(*session)};
  return Status();
}

Status view_output(const GantrySession* session, int32_t index, DLTensor* out) {
  if (session == nullptr || out == nullptr) return null_argument("gantry_get_output");
  Result<OutputView> view = session->session->output(index);
  if (!view.ok()) return view.status();
  memset(out, 0, sizeof *out);
  out->data = view->data;
  out->device = {kDLCPU, 0};
  out->ndim = static_cast<int32_t>(view->shape.size());
  out->dtype = gantry::runtime::to_dlpack(view->type);
  out->shape = const_cast<int64_t*>(view->shape.data());
  return Status();
}

/// An output that owns itself: the session's memory, which it then has no more, or a copy.
struct OwnedTensor {
  OwnedTensor() = default;
  OwnedTensor(const OwnedTensor&) = delete;
  ~OwnedTensor() {
    if (held != nullptr) held->let_go();
  }

  DLManagedTensor managed{};
  std::shared_ptr<OutputMemory> held;
  AlignedBuffer copy;
  std::vector<int64_t> shape;
};

Status take_output(const GantrySession* session, int32_t index, DLManagedTensor** out) {
  if (session == nullptr || out == nullptr) return null_argument("gantry_take_output");
  *out = nullptr;
  auto owned = std::make_unique<OwnedTensor>();
  GANTRY_TRY(view_output(session, index, &owned->managed.dl_tensor));
  DLTensor& tensor = owned->managed.dl_tensor;
  if (tensor.dtype.code == kDLOpaqueHandle)
    return failure(GANTRY_INVALID_ARGUMENT,
                   "output %d is of strings, whose numbers mean nothing once the session runs again: get "
                   "them one by one",
                   index);
  auto held = session->session->hold_output(index);
  if (!held.ok()) return held.status();
  owned->held = std::move(*held);
  if (owned->held == nullptr) {
    const uint64_t bytes = session->session->output(index)->bytes;
    GANTRY_TRY(owned->copy.reserve(bytes, "a copy of an output"));
    if (bytes > 0) memcpy(owned->copy.data(), tensor.data, bytes);
    tensor.data = owned->copy.data();
  }
  owned->shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  tensor.shape = owned->shape.data();
  owned->managed.manager_ctx = owned.get();
  owned->managed.deleter = [](DLManagedTensor* self) { delete static_cast<OwnedTensor*>(self->manager_ctx); };
  *out = &owned.release()->managed;
  return Status();
}

/// Runs once and gives `take` the time of each of the first `capacity` steps.
template <typename Take>
Status time_steps(const char* function, GantrySession* session, int32_t capacity, int32_t* count, Take take) {
  if (session == nullptr || count == nullptr || capacity < 0) return null_argument(function);
  *count = 0;
  std::vector<int64_t> nanoseconds;
  GANTRY_TRY(session->session->run_timed(nanoseconds));
  const auto& executor = session->session->executor();
  *count = static_cast<int32_t>(nanoseconds.size());
  for (int32_t i = 0; i < *count && i < capacity; ++i) {
    const auto step = static_cast<size_t>(i);
    const auto& label = executor.label(step);
    take(step, GantryStepTime{label.symbol, label.ops, label.origin, nanoseconds[step], executor.flops(step),
                              executor.bytes(step)});
  }
  return Status();
}

}  // namespace

extern "C" {

const char* gantry_last_error(void) {
  return last_error.c_str();
}
const char* gantry_version(void) {
  return GANTRY_VERSION;
}

GantryStatus gantry_module_load(const char* path, GantryModule** out) {
  if (path == nullptr || out == nullptr) return report(null_argument("gantry_module_load"));
  *out = nullptr;
  Status status = create_module(ModuleContents::open(path), out);
  // What concerns the file's contents already names it.
  if (status.ok() || status.message().find(path) != std::string::npos) return report(status);
  return report(Status(status.code(), std::string("'") + path + "': " + status.message()));
}

GantryStatus gantry_module_load_memory(const void* bytes, size_t size, GantryModule** out) {
  if ((bytes == nullptr && size > 0) || out == nullptr)
    return report(null_argument("gantry_module_load_memory"));
  *out = nullptr;
  auto copy = std::make_shared<AlignedBuffer>();
  if (Status status = copy->reserve(size, "a copy of the module"); !status.ok()) return report(status);
  if (size > 0) memcpy(copy->data(), bytes, size);
  return report(create_module(ModuleContents::from_bytes({{copy->data(), size}, copy}), out));
}

GantryStatus gantry_module_load_in_place(const void* bytes, size_t size, GantryModule** out) {
  if (bytes == nullptr || out == nullptr) return report(null_argument("gantry_module_load_in_place"));
  *out = nullptr;
  if (reinterpret_cast<uintptr_t>(bytes) % gantry::module_format::kBufferAlignment != 0) {
    return report(failure(GANTRY_INVALID_ARGUMENT,
                          "gantry_module_load_in_place: the module must begin at a multiple of %d bytes; "
                          "gantry_module_load_memory takes it from anywhere",
                          static_cast<int>(gantry::module_format::kBufferAlignment)));
  }
  return report(create_module(
      ModuleContents::from_bytes({{static_cast<const std::byte*>(bytes), size}, nullptr}), out));
}

void gantry_module_release(GantryModule* module) {
  delete module;
}

const char* gantry_module_target(const GantryModule* module) {
  return module == nullptr ? "" : module->target.c_str();
}

int32_t gantry_input_count(const GantryModule* module) {
  return module == nullptr ? 0 : static_cast<int32_t>(module->contents.manifest().inputs()->size());
}
int32_t gantry_output_count(const GantryModule* module) {
  return module == nullptr ? 0 : static_cast<int32_t>(module->contents.manifest().outputs()->size());
}
GantryStatus gantry_describe_input(const GantryModule* module, int32_t index, GantryTensorDescription* out) {
  return report(describe_sized("gantry_describe_input", module, index, true, out));
}
GantryStatus gantry_describe_output(const GantryModule* module, int32_t index, GantryTensorDescription* out) {
  return report(describe_sized("gantry_describe_output", module, index, false, out));
}
GantryStatus gantry_input_info(const GantryModule* module, int32_t index, GantryTensorInfo* out) {
  return report(describe_0_1("gantry_input_info", module, index, true, out));
}
GantryStatus gantry_output_info(const GantryModule* module, int32_t index, GantryTensorInfo* out) {
  return report(describe_0_1("gantry_output_info", module, index, false, out));
}

GantryStatus gantry_session_create(GantryModule* module, const GantrySessionOptions* options,
                                   GantrySession** out) {
  return report(create_session(module, options, out));
}
void gantry_session_release(GantrySession* session) {
  delete session;
}

GantryStatus gantry_set_input(GantrySession* session, int32_t index, const DLTensor* tensor, int borrow) {
  if (session == nullptr || tensor == nullptr) return report(null_argument("gantry_set_input"));
  return report(session->session->set_input(index, *tensor, borrow != 0));
}
GantryStatus gantry_run(GantrySession* session) {
  return report(session == nullptr ? null_argument("gantry_run") : session->session->run());
}
GantryStatus gantry_get_output(GantrySession* session, int32_t index, DLTensor* out) {
  return report(view_output(session, index, out));
}
GantryStatus gantry_take_output(GantrySession* session, int32_t index, DLManagedTensor** out) {
  return report(take_output(session, index, out));
}
GantryStatus gantry_time_steps(GantrySession* session, GantryStepTime* steps, size_t step_size,
                               int32_t capacity, int32_t* count) {
  if (steps == nullptr && capacity > 0) return report(null_argument("gantry_time_steps"));
  if (!is_struct_size(step_size)) {
    return report(
        failure(GANTRY_INVALID_ARGUMENT, "gantry_time_steps: step_size must be sizeof(GantryStepTime)"));
  }
  return report(
      time_steps("gantry_time_steps", session, capacity, count, [&](size_t i, const GantryStepTime& step) {
        fill(reinterpret_cast<char*>(steps) + i * step_size, step_size, step);
      }));
}
GantryStatus gantry_run_profiled(GantrySession* session, GantryStepProfile* steps, int32_t capacity,
                                 int32_t* count) {
  if (steps == nullptr && capacity > 0) return report(null_argument("gantry_run_profiled"));
  return report(
      time_steps("gantry_run_profiled", session, capacity, count, [&](size_t i, const GantryStepTime& step) {
        steps[i] = {step.ops, step.origin, step.nanoseconds, step.flops, step.bytes};
      }));
}
GantryStatus gantry_session_memory(const GantrySession* session, GantrySessionMemory* out) {
  if (session == nullptr || out == nullptr) return report(null_argument("gantry_session_memory"));
  const auto memory = session->session->memory();
  return report(fill_sized("gantry_session_memory", out,
                           GantrySessionMemory{0, memory.workspace_bytes, memory.weights_bytes,
                                               memory.io_bytes, memory.device_workspace_bytes,
                                               memory.device_weights_bytes, memory.device_io_bytes}));
}
GantryStatus gantry_memory_info(const GantrySession* session, GantryMemoryInfo* out) {
  if (session == nullptr || out == nullptr) return report(null_argument("gantry_memory_info"));
  const auto memory = session->session->memory();
  *out = {memory.workspace_bytes, memory.weights_bytes, memory.io_bytes};
  return GANTRY_OK;
}
GantryStatus gantry_device_memory_info(const GantrySession* session, GantryDeviceMemoryInfo* out) {
  if (session == nullptr || out == nullptr) return report(null_argument("gantry_device_memory_info"));
  const auto memory = session->session->memory();
  return report(fill_sized("gantry_device_memory_info", out,
                           GantryDeviceMemoryInfo{0, memory.device_workspace_bytes,
                                                  memory.device_weights_bytes, memory.device_io_bytes}));
}

}  // extern "C"
