#include "device_runtime/src/session.h"

#include <algorithm>

#include "device_runtime/src/builtins.h"
#include "device_runtime/src/cpu_info.h"
#include "device_runtime/src/cuda_executor.h"
#include "device_runtime/src/cuda_module.h"
#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/module_format.h"
#include "device_runtime/src/plan_executor.h"
#include "device_runtime/src/shape_errors.h"
#include "device_runtime/src/strided_copy.h"

namespace gantry::runtime {
namespace {

using module_format::DimExpr;
using module_format::Manifest;
using module_format::TensorInfo;

const DimExpr& dim_of(const Manifest& manifest, const TensorInfo& tensor, uint32_t axis) {
  return *manifest.dim_exprs()->Get(tensor.shape()->Get(axis));
}

/// "f32 (N, 3, 224, 224)"
std::string expected_text(const Manifest& manifest, const TensorInfo& tensor) {
  std::string text = std::string(element_name(static_cast<ElementType>(tensor.dtype()))) + " (";
  for (uint32_t i = 0; i < tensor.shape()->size(); ++i) {
    text += (i > 0 ? ", " : "") + dim_text(dim_of(manifest, tensor, i), manifest);
  }
  return text + ")";
}

// A scheduler that may place workers freely starts them beside the thread that wakes them, and on a busy
// machine leaves them there for milliseconds; but with fewer threads than cores another process's pinned
// threads could be on the same cores.
Result<std::unique_ptr<ThreadPool>> create_pool(int threads, std::span<const int> cpus) {
  if (cpus.empty() && threads > 1 && threads == cpu_info().physical_cores) {
    auto pool = ThreadPool::create_on_all_cores();
    // CPUs may have gone since they were counted: those that the caller did not ask for are no reason to
    // fail.
    if (pool.ok()) return pool;
  }
  return ThreadPool::create(threads, cpus);
}

}  // namespace

Session::Session(std::shared_ptr<const Module> module) : module_(std::move(module)) {
  inputs_.resize(module_->manifest().inputs()->size());
  outputs_.resize(module_->manifest().outputs()->size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const auto* info = module_->manifest().outputs()->Get(static_cast<uint32_t>(i));
    outputs_[i].type = static_cast<ElementType>(info->dtype());
  }
  if (builtin_part() != nullptr) strings_ = builtin_part()->make_strings(module_->manifest());
  use(*module_);
}

void Session::use(const Module& module) {
  if (used_ == &module) return;
  if (memory_limit_ > 0) executors_.clear();  // what others keep would not be counted
  used_ = &module;
  sizes_show_late_ = has_stretches(module.variant());
  for (const ModuleExecutor& known : executors_) {
    if (known.module == &module) {
      executor_ = known.executor.get();
      return;
    }
  }
  std::unique_ptr<Executor> own;
  if (sizes_show_late_) {
    own = std::make_unique<PlanExecutor>();
  } else if (module.gpu() != nullptr) {
    own = std::make_unique<cuda::CudaExecutor>(module.gpu());
  } else {
    own = std::make_unique<CpuExecutor>();
  }
  executor_ = own.get();
  executors_.push_back({&module, std::move(own)});
}

const Module& Session::module_for(std::span<const std::optional<int64_t>> symbols) const {
  for (const auto& specialized : module_->specialized()) {
    if (specialized->is_for(symbols)) return *specialized;
  }
  return *module_;
}

Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Module> module,
                                                 const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session(std::move(module)));
  session->memory_limit_ = options.memory_limit;
  int threads = options.threads;
  if (threads == 0) {
    threads = options.cpus.empty() ? cpu_info().physical_cores : static_cast<int>(options.cpus.size());
  }
  Result<std::unique_ptr<ThreadPool>> pool = create_pool(threads, options.cpus);
  if (!pool.ok()) return pool.status();
  session->pool_ = std::move(*pool);
  if (!options.cpus.empty()) GANTRY_TRY(session->caller_pin_.set(options.cpus[0]));
  GANTRY_TRY(session->set_constant_shapes());
  return session;
}

Status Session::set_constant_shapes() {
  const Manifest& manifest = module_->manifest();
  std::vector<std::vector<int64_t>> shapes;
  for (const TensorInfo* input : *manifest.inputs()) {
    std::vector<int64_t>& shape = shapes.emplace_back();
    for (uint32_t axis = 0; axis < input->shape()->size(); ++axis) {
      const auto value = constant_dim(dim_of(manifest, *input, axis));
      if (!value) return Status();
      shape.push_back(*value);
    }
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    uint64_t bytes = 0;
    const auto* info = manifest.inputs()->Get(static_cast<uint32_t>(i));
    if (!dense_bytes(shapes[i], static_cast<ElementType>(info->dtype()), &bytes)) {
      return failure(GANTRY_INVALID_MODULE, "the module's input '%s' has an impossible size",
                     info->name()->c_str());
    }
    GANTRY_TRY(set_shape(static_cast<int>(i), shapes[i]));
  }
  return prepare();
}

Status Session::check_index(int index, size_t count, const char* role) const {
  if (index >= 0 && static_cast<size_t>(index) < count) return Status();
  return failure(GANTRY_INVALID_ARGUMENT, "there is no %s %d: the model has %zu", role, index, count);
}

Status Session::check_shape(int index, std::span<const int64_t> shape, const std::string& given) const {
  const Manifest& manifest = module_->manifest();
  const TensorInfo& info = *manifest.inputs()->Get(static_cast<uint32_t>(index));
  bool fits = info.shape()->size() == shape.size();
  std::string where;
  for (size_t axis = 0; fits && axis < shape.size(); ++axis) {
    const auto constant = constant_dim(dim_of(manifest, info, static_cast<uint32_t>(axis)));
    fits = shape[axis] >= 0 && (!constant || *constant == shape[axis]);
    if (!fits && constant) {
      where = format_text(": dimension %zu must be %lld, not %lld", axis, static_cast<long long>(*constant),
                          static_cast<long long>(shape[axis]));
    }
  }
  uint64_t bytes = 0;
  if (fits) fits = dense_bytes(shape, static_cast<ElementType>(info.dtype()), &bytes);
  if (fits) return Status();
  return failure(GANTRY_INVALID_ARGUMENT, "input '%s': expected %s, got %s%s", info.name()->c_str(),
                 expected_text(manifest, info).c_str(), given.c_str(), where.c_str());
}

Status Session::set_shape(int index, std::span<const int64_t> shape) {
  Input& input = inputs_[static_cast<size_t>(index)];
  const TensorInfo& info = *module_->manifest().inputs()->Get(static_cast<uint32_t>(index));
  if (input.shape.size() != shape.size() || !std::equal(shape.begin(), shape.end(), input.shape.begin())) {
    prepared_ = false;
    has_run_ = false;
  }
  input.shape.assign(shape.begin(), shape.end());
  dense_bytes(shape, static_cast<ElementType>(info.dtype()), &input.bytes);
  return Status();
}

Status Session::set_input(int index, const DLTensor& tensor, bool borrow) {
  GANTRY_TRY(check_index(index, inputs_.size(), "input"));
  const TensorInfo& info = *module_->manifest().inputs()->Get(static_cast<uint32_t>(index));
  const char* name = info.name()->c_str();
  if (tensor.device.device_type != kDLCPU) {
    return failure(GANTRY_INVALID_ARGUMENT, "input '%s': the tensor is not in the CPU's memory", name);
  }
  if (tensor.ndim < 0 || tensor.ndim > GANTRY_MAX_RANK || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    return failure(GANTRY_INVALID_ARGUMENT, "input '%s': the tensor has no valid shape", name);
  }
  const std::span<const int64_t> shape(tensor.shape, static_cast<size_t>(tensor.ndim));
  const std::string given = dlpack_name(tensor.dtype) + " " + shape_text(shape);
  if (!same_type(tensor.dtype, to_dlpack(static_cast<ElementType>(info.dtype())))) {
    return failure(GANTRY_INVALID_ARGUMENT, "input '%s': expected %s, got %s", name,
                   expected_text(module_->manifest(), info).c_str(), given.c_str());
  }
  if (tensor.dtype.code == kDLOpaqueHandle)
    return failure(GANTRY_INVALID_ARGUMENT, "input '%s' is of strings, which gantry_set_strings takes", name);
  GANTRY_TRY(check_shape(index, shape, given));
  Input& input = inputs_[static_cast<size_t>(index)];
  uint64_t bytes = 0;
  dense_bytes(shape, static_cast<ElementType>(info.dtype()), &bytes);
  if (tensor.data == nullptr && bytes > 0) {
    return failure(GANTRY_INVALID_ARGUMENT, "input '%s': the tensor has no data", name);
  }
  auto* data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  const bool direct =
      borrow && is_dense(tensor) && reinterpret_cast<uintptr_t>(data) % module_format::kBufferAlignment == 0;
  if (!direct) {
    Result<std::span<std::byte>> storage = input_storage(index, shape);
    if (!storage.ok()) return storage.status();
    if (!borrow) copy_dense(tensor, storage->data());
  } else {
    GANTRY_TRY(set_shape(index, shape));
    input.data = data;
    input.copied_from.reset();
    executor_->move_input(static_cast<uint32_t>(index), data);
  }
  if (borrow && !direct) {
    input.copied_shape.assign(shape.begin(), shape.end());
    input.copied_from = tensor;
    input.copied_from->shape = input.copied_shape.data();
    if (tensor.strides != nullptr) {
      input.copied_strides.assign(tensor.strides, tensor.strides + tensor.ndim);
      input.copied_from->strides = input.copied_strides.data();
    }
  }
  input.is_set = true;
  return Status();
}

Result<std::span<std::byte>> Session::input_storage(int index, std::span<const int64_t> shape) {
  GANTRY_TRY(check_index(index, inputs_.size(), "input"));
  Input& input = inputs_[static_cast<size_t>(index)];
  const TensorInfo& info = *module_->manifest().inputs()->Get(static_cast<uint32_t>(index));
  const auto type = static_cast<ElementType>(info.dtype());
  GANTRY_TRY(check_shape(index, shape, std::string(element_name(type)) + " " + shape_text(shape)));
  uint64_t bytes = 0;
  dense_bytes(shape, type, &bytes);
  if (memory_limit_ > 0 && bytes > memory_limit_) {
    return failure(GANTRY_OUT_OF_MEMORY, "input '%s' needs %s, this session may use %s", info.name()->c_str(),
                   byte_text(static_cast<double>(bytes)).c_str(),
                   byte_text(static_cast<double>(memory_limit_)).c_str());
  }
  input.is_set = false;
  GANTRY_TRY(input.storage.reserve(bytes, "an input"));
  GANTRY_TRY(set_shape(index, shape));
  input.copied_from.reset();
  input.data = input.storage.data();
  input.is_set = true;
  executor_->move_input(static_cast<uint32_t>(index), input.data);
  return std::span<std::byte>(input.data, input.bytes);
}

Status Session::bind_symbols(std::vector<std::optional<int64_t>>& values) const {
  const Manifest& manifest = module_->manifest();
  const uint32_t count = manifest.symbols() == nullptr ? 0 : manifest.symbols()->size();
  std::vector<std::optional<int64_t>> bound(count);
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    for (uint32_t axis = 0; axis < inputs_[i].shape.size(); ++axis) {
      const auto symbol = symbol_dim(dim_of(manifest, *manifest.inputs()->Get(i), axis));
      if (symbol && !bound[*symbol]) bound[*symbol] = inputs_[i].shape[axis];
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (!bound[i] && !has_stretches(module_->variant())) {
      return failure(GANTRY_INVALID_MODULE, "the module's dimension %s is not the dimension of any input",
                     manifest.symbols()->Get(i)->c_str());
    }
    values.push_back(bound[i]);
  }
  return Status();
}

Status Session::check_inputs(const DimValues& dims) const {
  const Manifest& manifest = module_->manifest();
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    const TensorInfo& info = *manifest.inputs()->Get(i);
    for (uint32_t axis = 0; axis < inputs_[i].shape.size(); ++axis) {
      Result<int64_t> value = dims.get(info.shape()->Get(axis));
      if (!value.ok()) return value.status();
      if (*value == inputs_[i].shape[axis]) continue;
      return failure(
          GANTRY_INVALID_ARGUMENT,
          "input '%s': expected %s, got %s, where dimension %u must be %s = %lld by the other dimensions",
          info.name()->c_str(), expected_text(manifest, info).c_str(), shape_text(inputs_[i].shape).c_str(),
          axis, dim_text(dim_of(manifest, info, axis), manifest).c_str(), static_cast<long long>(*value));
    }
  }
  return Status();
}

Status Session::check_constraints(const DimValues& dims) const {
  const Manifest& manifest = module_->manifest();
  if (manifest.constraints() == nullptr) return Status();
  for (const auto* constraint : *manifest.constraints()) {
    // The plan checks it when it has bound the symbols.
    if (has_stretches(module_->variant()) && !(dims.is_bound(constraint->left()) && dims.is_bound(constraint->right()))) continue;
    Result<int64_t> left = dims.get(constraint->left()), right = dims.get(constraint->right());
    if (!left.ok()) return left.status();
    if (!right.ok()) return right.status();
    if (*left != *right) return broken_constraint(manifest, *constraint, dims.symbols());
  }
  return Status();
}

Status Session::provide_memory(const DimValues& dims) {
  const Manifest& manifest = module_->manifest();
  Result<uint64_t> workspace = dims.get_size(used_->variant().workspace_bytes());
  if (!workspace.ok()) return workspace.status();
  double total = static_cast<double>(*workspace);
  for (uint32_t i = 0; i < outputs_.size(); ++i) {
    std::vector<int64_t> shape;
    for (uint32_t dim : *manifest.outputs()->Get(i)->shape()) {
      Result<uint64_t> value = dims.get_size(dim);
      if (!value.ok()) return value.status();
      shape.push_back(static_cast<int64_t>(*value));
    }
    GANTRY_TRY(set_output_shape(outputs_[i], i, shape));
    total += static_cast<double>(outputs_[i].bytes);
  }
  for (const Input& input : inputs_) total += static_cast<double>(input.bytes);
  if (memory_limit_ > 0 && total > static_cast<double>(memory_limit_)) {
    return failure(GANTRY_OUT_OF_MEMORY,
                   "the model needs %s (workspace %s, the rest inputs and outputs), this session may use %s",
                   byte_text(total).c_str(), byte_text(static_cast<double>(*workspace)).c_str(),
                   byte_text(static_cast<double>(memory_limit_)).c_str());
  }
  Result<std::byte*> reserved = executor_->reserve_workspace(*workspace);
  if (!reserved.ok()) return reserved.status();
  workspace_ = *reserved;
  workspace_bytes_ = *workspace;
  for (Output& output : outputs_) GANTRY_TRY(provide_output(output));
  return provide_inputs();
}

Status Session::set_output_shape(Output& output, uint32_t index, std::span<const int64_t> shape) {
  output.shape.assign(shape.begin(), shape.end());
  if (dense_bytes(shape, output.type, &output.bytes)) return Status();
  return failure(GANTRY_OUT_OF_MEMORY, "output '%s' would be larger than any memory: %s",
                 module_->manifest().outputs()->Get(index)->name()->c_str(), shape_text(shape).c_str());
}

Status Session::provide_inputs() {
  for (Input& input : inputs_) {
    if (input.data == nullptr) {
      GANTRY_TRY(input.storage.reserve(input.bytes, "an input"));
      input.data = input.storage.data();
    }
  }
  return Status();
}

/// Memory of the output's size that nobody holds. Whoever takes every result and drops the one before has the
/// same two in turns. One that is held stays the output where there is no memory for another.
Status Session::provide_output(Output& output) {
  if (!output.memory->is_held()) return output.memory->reserve(output.bytes);
  if (output.spare == nullptr || output.spare->is_held()) output.spare = std::make_shared<OutputMemory>();
  GANTRY_TRY(output.spare->reserve(output.bytes));
  std::swap(output.memory, output.spare);
  return Status();
}

Status Session::prepare() {
  if (prepared_) return Status();
  DimValues dims;
  std::vector<std::optional<int64_t>> symbols;
  GANTRY_TRY(bind_symbols(symbols));
  dims.evaluate(module_->manifest(), symbols);
  GANTRY_TRY(check_inputs(dims));
  use(module_for(symbols));
  GANTRY_TRY(check_constraints(dims));
  GANTRY_TRY(sizes_show_late_ ? provide_inputs() : provide_memory(dims));
  PlanMemory memory;
  memory.while_running = sizes_show_late_ ? this : nullptr;
  for (const Input& input : inputs_) memory.inputs.push_back({input.data, input.bytes});
  for (const Output& output : outputs_) memory.outputs.push_back({output.memory->data(), output.bytes});
  memory.workspace = {workspace_, workspace_bytes_};
  GANTRY_TRY(executor_->bind(*used_, dims, memory));
  prepared_ = true;
  return Status();
}

Status Session::before_run() {
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].is_set) continue;
    return failure(GANTRY_INVALID_ARGUMENT, "input '%s' has not been set",
                   module_->manifest().inputs()->Get(i)->name()->c_str());
  }
  GANTRY_TRY(prepare());
  // A run that fails half-way leaves no outputs, and no strings that older ones name.
  if (sizes_show_late_ || strings_ != nullptr) has_run_ = false;
  if (sizes_show_late_) begin_run();  // strings get what inputs leave of the memory
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (sizes_show_late_ || !outputs_[i].memory->is_held()) continue;
    has_run_ = false;
    GANTRY_TRY(provide_output(outputs_[i]));
    executor_->move_output(static_cast<uint32_t>(i), outputs_[i].memory->data());
  }
  for (Input& input : inputs_) {
    if (input.copied_from) copy_dense(*input.copied_from, input.data);
  }
  return write_strings();
}

uint64_t Session::Output::kept_bytes() const {
  uint64_t total = 0;
  if (!memory->is_held()) total += memory->capacity() - std::min(memory->capacity(), bytes);
  if (spare != nullptr && !spare->is_held()) total += spare->capacity();
  return total;
}

void Session::Output::let_go_of_kept() {
  // A page stays: what this run gave keeps its address, of no bytes too.
  if (!memory->is_held()) memory->shrink(std::max<uint64_t>(bytes, 1));
  if (spare != nullptr && !spare->is_held()) spare->shrink(0);
}

void Session::begin_run() {
  // What the run before gave is not what this one gives: each counts from when its size shows.
  for (Output& output : outputs_) output.bytes = 0;
}

bool Session::make_room(double bytes) {
  if (memory_limit_ == 0) return true;
  const double left = static_cast<double>(memory_limit_) - bytes;
  if (left < 0) return false;
  uint64_t kept = 0;
  for (const Output& output : outputs_) kept += output.kept_bytes();
  if (static_cast<double>(kept) <= left) return true;
  for (Output& output : outputs_) output.let_go_of_kept();
  return true;
}

Result<std::byte*> Session::provide_output(uint32_t index, std::span<const int64_t> shape) {
  Output& output = outputs_[index];
  output.bytes = 0;
  Status status = provide_late_output(output, index, shape);
  if (status.ok()) return output.memory->data();
  output.bytes = 0;  // later runs would count what nobody has got
  return status;
}

Status Session::provide_late_output(Output& output, uint32_t index, std::span<const int64_t> shape) {
  const uint64_t others = io_bytes() + executor_->taken_workspace_bytes();
  GANTRY_TRY(set_output_shape(output, index, shape));
  const double total = static_cast<double>(others) + static_cast<double>(output.bytes);
  if (!make_room(total)) {
    return failure(GANTRY_OUT_OF_MEMORY, "output '%s' of shape %s needs %s beside the %s that are taken, this session may use %s",
                   module_->manifest().outputs()->Get(index)->name()->c_str(), shape_text(shape).c_str(),
                   byte_text(static_cast<double>(output.bytes)).c_str(),
                   byte_text(static_cast<double>(others)).c_str(),
                   byte_text(static_cast<double>(memory_limit_)).c_str());
  }
  return provide_output(output);
}

Status Session::allow_workspace(uint64_t bytes) {
  const double total = static_cast<double>(bytes) + static_cast<double>(io_bytes());
  if (make_room(total)) return Status();
  return failure(GANTRY_OUT_OF_MEMORY,
                 "the model needs %s (workspace %s, the rest inputs and outputs), this session may use %s",
                 byte_text(total).c_str(), byte_text(static_cast<double>(bytes)).c_str(),
                 byte_text(static_cast<double>(memory_limit_)).c_str());
}

uint64_t Session::io_bytes() const {
  uint64_t total = 0;
  for (const Input& input : inputs_) total += input.bytes;
  for (const Output& output : outputs_) total += output.bytes;
  return total;
}

Status Session::run() {
  GANTRY_TRY(before_run());
  GANTRY_TRY(executor_->run(pool_->host()));
  has_run_ = true;
  return Status();
}

Status Session::run_repeatedly(int number, double& elapsed_ms) {
  GANTRY_TRY(before_run());
  GANTRY_TRY(executor_->run_repeatedly(pool_->host(), number, elapsed_ms));
  has_run_ = true;
  return Status();
}

Status Session::run_timed(std::vector<int64_t>& nanoseconds) {
  GANTRY_TRY(before_run());
  // Not before: the sizes decide which module runs, and with it how many steps there are.
  nanoseconds = std::vector<int64_t>(executor_->step_count());
  GANTRY_TRY(executor_->run_timed(pool_->host(), nanoseconds));
  has_run_ = true;
  return Status();
}

Status Session::run_traced(RunTimeline& timeline) {
  GANTRY_TRY(before_run());
  GANTRY_TRY(executor_->run_traced(pool_->host(), pool_->threads(), timeline));
  has_run_ = true;
  return Status();
}

Status Session::run_counted(std::vector<uint64_t>& instructions) {
  GANTRY_TRY(before_run());
  Result<StepInstructions> counts = StepInstructions::create(*pool_, executor_->step_count());
  if (!counts.ok()) return counts.status();
  GANTRY_TRY(executor_->run_counted(pool_->host(), *counts));
  has_run_ = true;
  Result<std::vector<uint64_t>> counted = counts->end();
  if (!counted.ok()) return counted.status();
  instructions = std::move(*counted);
  return Status();
}

Result<OutputView> Session::output(int index) const {
  GANTRY_TRY(check_index(index, outputs_.size(), "output"));
  if (!has_run_) return failure(GANTRY_INVALID_ARGUMENT, "there are no outputs yet: run the session first");
  const Output& output = outputs_[static_cast<size_t>(index)];
  return OutputView{output.memory->data(), output.bytes, output.type, output.shape};
}

Result<std::shared_ptr<OutputMemory>> Session::hold_output(int index) {
  if (Result<OutputView> view = output(index); !view.ok()) return view.status();
  if (!executor_->outputs_move()) return std::shared_ptr<OutputMemory>();
  Output& output = outputs_[static_cast<size_t>(index)];
  output.memory->hold();
  return output.memory;
}

SessionMemory Session::memory() const {
  SessionMemory memory;
  memory.workspace_bytes = workspace_bytes_ + executor_->taken_workspace_bytes();
  memory.weights_bytes = module_->weights_bytes();
  memory.io_bytes = io_bytes() + (strings_ == nullptr ? 0 : strings_->bytes());
  memory.device_workspace_bytes = executor_->device_workspace_bytes();
  memory.device_io_bytes = executor_->device_io_bytes();
  if (module_->gpu() != nullptr) memory.device_weights_bytes = module_->gpu()->weights_bytes();
  for (const auto& specialized : module_->specialized()) {
    if (specialized->gpu() != nullptr) memory.device_weights_bytes += specialized->gpu()->weights_bytes();
  }
  return memory;
}

}  // namespace gantry::runtime
