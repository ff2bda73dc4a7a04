#include "host/compiler/loaded_program.h"

#include <algorithm>
#include <limits>

#include "gantry/runtime.h"
#include "gantry/strings.h"
#include "host/graph/strings.h"
#include "host/support/error.h"
#include "host/support/stopwatch.h"

namespace gantry {
namespace {

void check(GantryStatus status) {
  if (status != GANTRY_OK) user_error("{}", gantry_last_error());
}

/// DLPack's codes of small floats, in the order of DType.
uint8_t small_float_code_of(DType dtype) {
  constexpr uint8_t kCodes[] = {kDLFloat8_e4m3fn,  kDLFloat8_e4m3fnuz, kDLFloat8_e5m2,   kDLFloat8_e5m2fnuz,
                                kDLFloat8_e8m0fnu, kDLFloat6_e2m3fn,   kDLFloat6_e3m2fn, kDLFloat4_e2m1fn};
  return kCodes[static_cast<size_t>(dtype) - static_cast<size_t>(DType::kF8E4M3FN)];
}

DType from_dlpack(uint8_t code, uint8_t bits) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DLDataType candidate = to_dlpack(static_cast<DType>(i));
    if (candidate.code == code && candidate.bits == bits) return static_cast<DType>(i);
  }
  internal_error("an output has an unknown element type");
}

}  // namespace

DLDataType to_dlpack(DType dtype) {
  const auto bits = static_cast<uint8_t>(bit_width(dtype));
  if (is_small_float(dtype)) return {small_float_code_of(dtype), bits, 1};
  if (dtype == DType::kBool) return {kDLBool, 8, 1};
  if (dtype == DType::kString) return {kDLOpaqueHandle, bits, 1};
  if (dtype == DType::kBF16) return {kDLBfloat, 16, 1};
  if (is_float(dtype)) return {kDLFloat, bits, 1};
  return {static_cast<uint8_t>(is_signed_int(dtype) ? kDLInt : kDLUInt), bits, 1};
}

ConstantPtr to_constant(uint8_t code, uint8_t bits, const std::vector<int64_t>& shape, const void* data) {
  return make_constant({from_dlpack(code, bits), Shape(shape.begin(), shape.end())}, data);
}

struct LoadedProgram::Impl {
  GantryModule* module = nullptr;
  GantrySession* session = nullptr;

  void set_strings(int32_t index, const std::vector<int64_t>& shape, const ConstantData& texts) const {
    std::vector<const char*> begins;
    std::vector<size_t> lengths;
    for (size_t i = 0; i < texts.size / sizeof(uint64_t); ++i) {
      begins.push_back(string_at(texts, i).data());
      lengths.push_back(string_at(texts, i).size());
    }
    check(gantry_set_strings(session, index, shape.data(), static_cast<int32_t>(shape.size()), begins.data(),
                             lengths.data()));
  }

  ConstantPtr strings_of_output(const DLTensor& view) const {
    const Shape shape(view.shape, view.shape + view.ndim);
    std::vector<std::string> texts;
    for (int64_t i = 0; i < element_count(shape).value(); ++i) {
      const char* text = nullptr;
      size_t length = 0;
      check(gantry_get_string(session, static_cast<const uint64_t*>(view.data)[i], &text, &length));
      texts.emplace_back(text, length);
    }
    return make_strings(shape, texts);
  }

  ~Impl() {
    gantry_session_release(session);
    gantry_module_release(module);
  }
};

LoadedProgram::LoadedProgram(const std::vector<std::byte>& module_file, int threads, const std::string& device)
    : impl_(std::make_unique<Impl>()) {
  check(gantry_module_load_memory(module_file.data(), module_file.size(), &impl_->module));
  GantrySessionOptions options{};
  options.struct_size = sizeof(options);
  options.threads = threads;
  options.device = device.c_str();
  check(gantry_session_create(impl_->module, &options, &impl_->session));
}

LoadedProgram::~LoadedProgram() = default;

void LoadedProgram::set_inputs(const std::vector<ConstantPtr>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<int64_t> shape = *constant_shape(inputs[i]->type.shape);
    if (inputs[i]->type.dtype == DType::kString) {
      impl_->set_strings(static_cast<int32_t>(i), shape, *inputs[i]);
      continue;
    }
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
    outputs.push_back(
        view.dtype.code == kDLOpaqueHandle
            ? impl_->strings_of_output(view)
            : to_constant(view.dtype.code, view.dtype.bits, {view.shape, view.shape + view.ndim}, view.data));
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
