#include "tests/cases/local_model.h"

#include <cstdlib>
#include <stdexcept>

#include "gantry/runtime.h"

namespace gantry::testing {
namespace {

DType from_dlpack(uint8_t code, uint8_t bits) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const DLDataType candidate = to_dlpack(static_cast<DType>(i));
    if (candidate.code == code && candidate.bits == bits) return static_cast<DType>(i);
  }
  throw std::runtime_error("an output of an unknown type");
}

void check(GantryStatus status) {
  if (status != GANTRY_OK) throw std::runtime_error(gantry_last_error());
}

}  // namespace

DLDataType to_dlpack(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * byte_width(dtype));
  if (dtype == DType::kBool) return {kDLBool, 8, 1};
  if (dtype == DType::kBF16) return {kDLBfloat, 16, 1};
  if (is_float(dtype)) return {kDLFloat, bits, 1};
  return {static_cast<uint8_t>(is_signed_int(dtype) ? kDLInt : kDLUInt), bits, 1};
}

ConstantPtr to_constant(uint8_t code, uint8_t bits, const std::vector<int64_t>& shape, const void* data) {
  return make_constant({from_dlpack(code, bits), Shape(shape.begin(), shape.end())}, data);
}

struct LocalModel::Impl {
  GantryModule* module = nullptr;
  GantrySession* session = nullptr;

  ~Impl() {
    gantry_session_release(session);
    gantry_module_release(module);
  }
};

std::string device_for(const std::string& target) {
  for (const std::string device : {"cuda-emulated", "cuda"}) {
    if (target.starts_with(device)) return device;
  }
  return "cpu";
}

std::string gpu_test_target(const std::string& checks) {
  if (const char* given = std::getenv("GANTRY_TEST_GPU"); given != nullptr && *given != '\0') return given;
  return "cuda-emulated:sm_80" + checks;
}

LocalModel::LocalModel(const std::vector<std::byte>& module_file, int threads, const std::string& device)
    : impl_(std::make_unique<Impl>()) {
  check(gantry_module_load_memory(module_file.data(), module_file.size(), &impl_->module));
  GantrySessionOptions options{};
  options.struct_size = sizeof(options);
  options.threads = threads;
  options.device = device.c_str();
  check(gantry_session_create(impl_->module, &options, &impl_->session));
}

LocalModel::~LocalModel() = default;

std::vector<ConstantPtr> LocalModel::run(const std::vector<ConstantPtr>& inputs) {
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
  check(gantry_run(impl_->session));
  std::vector<ConstantPtr> outputs;
  for (int32_t i = 0; i < gantry_output_count(impl_->module); ++i) {
    DLTensor view{};
    check(gantry_get_output(impl_->session, i, &view));
    outputs.push_back(
        to_constant(view.dtype.code, view.dtype.bits, {view.shape, view.shape + view.ndim}, view.data));
  }
  return outputs;
}

}  // namespace gantry::testing
