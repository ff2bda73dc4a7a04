#include "device_runtime/src/cuda_plan.h"

#include <string.h>

#include "device_runtime/src/module_format.h"

namespace gantry::runtime::cuda {
namespace {

using module_format::Buffer;
using module_format::BufferKind;
using module_format::CallKernel;
using module_format::Variant;

/// Launches of one step: more would be a mistake, and hang the session.
constexpr int64_t kMaxIterations = 1 << 20;

DeviceMemory::Range device_memory_of(const Module& module, const Buffer& buffer, const DeviceMemory& device,
                                     const char** where) {
  switch (buffer.kind()) {
    case BufferKind::Input:
      *where = "an input on the GPU";
      return device.inputs[buffer.index()];
    case BufferKind::Output:
      *where = "an output on the GPU";
      return device.outputs[buffer.index()];
    case BufferKind::Constant:
      *where = "a constant on the GPU";
      return DeviceMemory::Range{module.gpu()->constant(buffer.index()),
                                 module.constant(buffer.index()).size()};
    default:
      *where = "the GPU's workspace";
      return device.workspace;
  }
}

}  // namespace

Status Plan::bind_buffers(const Module& module, const DimValues& dims, const PlanMemory& memory,
                          const DeviceMemory& device) {
  std::vector<PlanMemory::Range> host;
  GANTRY_TRY(bind_host_buffers(module, dims, memory, host));
  const auto& buffers = *module.variant().buffers();
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = *buffers.Get(i);
    if (buffer.device() != module_format::Device::Cuda) {
      places_.push_back({host[i].data, 0, host[i].bytes});
      continue;
    }
    const char* where = "";
    const DeviceMemory::Range range = device_memory_of(module, buffer, device, &where);
    Result<uint64_t> bytes = dims.get_size(buffer.bytes());
    if (!bytes.ok()) return bytes.status();
    uint64_t offset = 0;
    if (buffer.kind() == BufferKind::Workspace) {
      Result<uint64_t> at = dims.get_size(buffer.offset());
      if (!at.ok()) return at.status();
      offset = *at;
      if (offset % module_format::kBufferAlignment != 0)
        return failure(GANTRY_INVALID_MODULE, "the module's plan: buffer %u is not aligned", i);
    }
    if (offset > range.bytes || *bytes > range.bytes - offset)
      return buffer_outside(i, where, offset + *bytes, range.bytes);
    places_.push_back({nullptr, range.address + offset, *bytes});
  }
  return Status();
}

void Plan::add_host_buffer(const Module& module, uint32_t buffer) {
  const Buffer& described = *module.variant().buffers()->Get(buffer);
  if (described.kind() == BufferKind::Input) {
    input_uses_.push_back({described.index(), static_cast<uint32_t>(host_buffers_.size())});
  }
  host_buffers_.push_back(places_[buffer].host);
}

Status Plan::bind_copy(const Module& module, uint32_t index, const module_format::CopyBuffer& copy) {
  const Place &source = places_[copy.source()], &target = places_[copy.target()];
  if (source.bytes != target.bytes) return unlike_sizes(index);
  Step step;
  step.bytes = source.bytes;
  step.source = source.device;
  step.target = target.device;
  step.first_host_buffer = static_cast<uint32_t>(host_buffers_.size());
  const auto is_pinned = [&](uint32_t buffer) {
    const Buffer& described = *module.variant().buffers()->Get(buffer);
    return described.device() == module_format::Device::Cuda || described.kind() == BufferKind::Workspace;
  };
  if (source.device == 0 && target.device == 0) {
    step.kind = Kind::kHostCopy;
  } else {
    step.kind =
        is_pinned(copy.source()) && is_pinned(copy.target()) ? Kind::kDeviceCopy : Kind::kUnpinnedCopy;
  }
  if (source.device == 0) add_host_buffer(module, copy.source());
  if (target.device == 0) add_host_buffer(module, copy.target());
  steps_.push_back(step);
  return Status();
}

Status Plan::bind_host_call(const Module& module, const DimValues& dims, const CallKernel& call) {
  Step step;
  step.kind = Kind::kHostKernel;
  step.function = reinterpret_cast<GantryKernelFn>(module.kernel(call.kernel()));
  step.first_host_buffer = static_cast<uint32_t>(host_buffers_.size());
  step.first_dim = static_cast<uint32_t>(host_dims_.size());
  for (uint32_t buffer : *call.buffers()) add_host_buffer(module, buffer);
  for (uint32_t d = 0; call.dims() != nullptr && d < call.dims()->size(); ++d) {
    Result<int64_t> value = dims.get(call.dims()->Get(d));
    if (!value.ok()) return value.status();
    host_dims_.push_back(*value);
  }
  steps_.push_back(step);
  return Status();
}

Status Plan::bind_grid(const Module& module, const DimValues& dims, const CallKernel& call, uint32_t launch,
                       BoundLaunch& bound) const {
  const auto* kernel = module.variant().kernels()->Get(call.kernel());
  bound.function = module.gpu()->function(call.kernel(), launch);
  bound.threads = kernel->launches()->Get(launch)->threads();
  for (uint32_t axis = 0; axis < 3; ++axis) {
    Result<uint64_t> blocks = dims.get_size(call.grids()->Get(3 * launch + axis));
    if (!blocks.ok()) return blocks.status();
    const auto most = static_cast<uint64_t>(module.gpu()->device()->max_grid(static_cast<int>(axis)));
    if (*blocks > most) {
      return failure(
          GANTRY_INVALID_ARGUMENT,
          "kernel %s (%s) would need %llu blocks along %c for these shapes; this GPU launches at most %llu: "
          "use smaller inputs",
          kernel->symbol()->c_str(), kernel->name()->c_str(), static_cast<unsigned long long>(*blocks),
          "xyz"[axis], static_cast<unsigned long long>(most));
    }
    bound.grid[axis] = static_cast<unsigned>(*blocks);
  }
  return Status();
}

Status Plan::bind_launches(const Module& module, const DimValues& dims, const CallKernel& call) {
  const auto* kernel = module.variant().kernels()->Get(call.kernel());
  Step step;
  step.first_group = static_cast<uint32_t>(groups_.size());
  step.first_value = static_cast<uint32_t>(values_.size());
  for (uint32_t buffer : *call.buffers()) values_.push_back(places_[buffer].device);
  for (uint32_t d = 0; call.dims() != nullptr && d < call.dims()->size(); ++d) {
    Result<int64_t> value = dims.get(call.dims()->Get(d));
    if (!value.ok()) return value.status();
    values_.push_back(static_cast<uint64_t>(*value));
  }
  step.value_count = static_cast<uint32_t>(values_.size()) - step.first_value;
  int32_t last_loop = -1;
  for (uint32_t i = 0; i < kernel->launches()->size(); ++i) {
    BoundLaunch bound;
    GANTRY_TRY(bind_grid(module, dims, call, i, bound));
    const int32_t loop = kernel->launches()->Get(i)->loop();
    const bool joins = i > 0 && loop >= 0 && loop == last_loop;
    last_loop = loop;
    if (!joins) {
      Group group;
      group.first_launch = static_cast<uint32_t>(launches_.size());
      group.takes_iteration = loop >= 0;
      if (loop >= 0) {
        Result<uint64_t> iterations = dims.get_size(call.loops()->Get(static_cast<uint32_t>(loop)));
        if (!iterations.ok()) return iterations.status();
        if (*iterations > kMaxIterations) {
          return failure(GANTRY_INVALID_ARGUMENT,
                         "kernel %s (%s) would be launched %llu times for these shapes",
                         kernel->symbol()->c_str(), kernel->name()->c_str(),
                         static_cast<unsigned long long>(*iterations));
        }
        group.iterations = static_cast<int64_t>(*iterations);
      }
      groups_.push_back(group);
    }
    if (bound.grid[0] == 0 || bound.grid[1] == 0 || bound.grid[2] == 0) continue;
    launches_.push_back(bound);
    ++groups_.back().launch_count;
  }
  step.group_count = static_cast<uint32_t>(groups_.size()) - step.first_group;
  steps_.push_back(step);
  return Status();
}

Status Plan::bind(const Module& module, const DimValues& dims, const PlanMemory& memory,
                  const DeviceMemory& device) {
  *this = Plan();
  GANTRY_TRY(bind_buffers(module, dims, memory, device));
  const Variant& variant = module.variant();
  for (uint32_t i = 0; i < variant.steps()->size(); ++i) {
    const auto& step = *variant.steps()->Get(i);
    if (const auto* copy = step.action_as_CopyBuffer()) {
      GANTRY_TRY(bind_copy(module, i, *copy));
      continue;
    }
    const CallKernel& call = *step.action_as_CallKernel();
    const bool on_gpu = variant.kernels()->Get(call.kernel())->device() == module_format::Device::Cuda;
    GANTRY_TRY(on_gpu ? bind_launches(module, dims, call) : bind_host_call(module, dims, call));
  }
  return Status();
}

void Plan::move_input(uint32_t input, std::byte* data) {
  for (const InputUse& use : input_uses_) {
    if (use.input == input) host_buffers_[use.slot] = data;
  }
}

ResultCode Plan::enqueue(size_t index, const Driver& driver, Stream stream) {
  const Step& step = steps_[index];
  if (step.kind != Kind::kLaunches) {
    if (step.bytes == 0) return 0;
    if (step.source == 0)
      return driver.copy_to_device(step.target, host_buffers_[step.first_host_buffer], step.bytes, stream);
    if (step.target == 0)
      return driver.copy_to_host(host_buffers_[step.first_host_buffer], step.source, step.bytes, stream);
    return driver.copy_on_device(step.target, step.source, step.bytes, stream);
  }
  // The driver copies the parameters before it returns.
  int64_t iteration = 0;
  parameters_.clear();
  for (uint32_t i = 0; i < step.value_count; ++i) parameters_.push_back(&values_[step.first_value + i]);
  parameters_.push_back(&iteration);
  for (uint32_t g = step.first_group; g < step.first_group + step.group_count; ++g) {
    const Group& group = groups_[g];
    for (iteration = 0; iteration < group.iterations; ++iteration) {
      for (uint32_t l = group.first_launch; l < group.first_launch + group.launch_count; ++l) {
        const BoundLaunch& launch = launches_[l];
        const ResultCode code = driver.launch(launch.function, launch.grid[0], launch.grid[1], launch.grid[2],
                                              launch.threads, 1, 1, 0, stream, parameters_.data(), nullptr);
        if (code != 0) return code;
      }
    }
  }
  return 0;
}

int32_t Plan::run_on_host(size_t index, const GantryKernelHost* host) const {
  const Step& step = steps_[index];
  void* const* buffers = host_buffers_.data() + step.first_host_buffer;
  if (step.kind == Kind::kHostKernel) return step.function(host, buffers, host_dims_.data() + step.first_dim);
  if (step.bytes > 0) memmove(buffers[1], buffers[0], step.bytes);
  return 0;
}

}  // namespace gantry::runtime::cuda
