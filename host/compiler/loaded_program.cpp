#include <algorithm>
#include <limits>

#include "gantry/runtime.h"
#include "host/compiler/compiler.h"
#include "host/support/error.h"
#include "host/support/stopwatch.h"

namespace gantry {
namespace {

void check(GantryStatus status) {
  if (status != GANTRY_OK) user_error("{}", gantry_last_error());
}

DLDataType to_dlpack(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * byte_width(dtype));
  if (dtype == DType::kBool) return {kDLBool, 8, 1};
  if (dtype == DType::kBF16) return {kDLBfloat, 16, 1};
  if (is_float(dtype)) return {kDLFloat, bits, 1};
  return {static_cast<uint8_t>(is_signed_int(dtype) ? kDLInt : kDLUInt), bits, 1};
}

DType from_dlpack(DLDataType type) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const DLDataType candidate = to_dlpack(static_cast<DType>(i));
    if (candidate.code == type.code && candidate.bits == type.bits) return static_cast<DType>(i);
  }
  internal_error("an output has an unknown element type");
}

const char* device_of(const Target& target) {
  switch (target.device) {
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kCudaEmulated:
      return "cuda-emulated";
    default:
      return "cpu";
  }
}

}  // namespace

struct LoadedProgram::Impl {
  std::vector<std::byte> bytes;  ///< the module is used where it lies
  GantryModule* module = nullptr;
  GantrySession* session = nullptr;

  ~Impl() {
    gantry_session_release(session);
    gantry_module_release(module);
  }
};

LoadedProgram::LoadedProgram(ModuleFile& module, const Target& target, int threads)
    : impl_(std::make_unique<Impl>()) {
  impl_->bytes = serialize_module(module);
  check(gantry_module_load_memory(impl_->bytes.data(), impl_->bytes.size(), &impl_->module));
  GantrySessionOptions options{};
  options.struct_size = sizeof(options);
  options.threads = threads;
  options.device = device_of(target);
  check(gantry_session_create(impl_->module, &options, &impl_->session));
}

LoadedProgram::~LoadedProgram() = default;

void LoadedProgram::set_inputs(const std::vector<ConstantPtr>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<int64_t> shape = *constant_shape(inputs[i]->type.shape);
    DLTensor view{};
    view.data = const_cast<std::byte*>(inputs[i]->bytes);
    view.device = {kDLCPU, 0};
    view.ndim = static_cast<int32_t>(shape.size());
    view.dtype = to_dlpack(inputs[i]->type.dtype);
    view.shape = shape.data();
    check(gantry_set_input(impl_->session, static_cast<int32_t>(i), &view, 0));
  }
}

std::vector<ConstantPtr> LoadedProgram::run(const std::vector<ConstantPtr>& inputs) {
  set_inputs(inputs);
  check(gantry_run(impl_->session));
  std::vector<ConstantPtr> outputs;
  for (int32_t i = 0; i < gantry_output_count(impl_->module); ++i) {
    DLTensor view{};
    check(gantry_get_output(impl_->session, i, &view));
    outputs.push_back(make_constant({from_dlpack(view.dtype), Shape(view.shape, view.shape + view.ndim)}, view.data));
  }
  return outputs;
}

double LoadedProgram::fastest_ms(const std::vector<ConstantPtr>& inputs, int runs) {
  set_inputs(inputs);
  check(gantry_run(impl_->session));  // the first one finds pages and caches cold
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    const Stopwatch stopwatch;
    check(gantry_run(impl_->session));
    best = std::min(best, 1e3 * stopwatch.seconds());
  }
  return best;
}

}  // namespace gantry
