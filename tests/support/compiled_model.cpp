#include "tests/support/compiled_model.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <stdexcept>

#include "gantry/runtime.h"

namespace gantry::testing {
namespace {

DLDataType to_dlpack(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * byte_width(dtype));
  if (dtype == DType::kBool) return {kDLBool, 8, 1};
  if (dtype == DType::kBF16) return {kDLBfloat, 16, 1};
  if (is_float(dtype)) return {kDLFloat, bits, 1};
  return {static_cast<uint8_t>(is_signed_int(dtype) ? kDLInt : kDLUInt), bits, 1};
}

DType from_dlpack(uint8_t code, uint8_t bits) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const DLDataType candidate = to_dlpack(static_cast<DType>(i));
    if (candidate.code == code && candidate.bits == bits) return static_cast<DType>(i);
  }
  throw std::runtime_error("an output of an unknown type");
}

ConstantPtr to_constant(uint8_t code, uint8_t bits, const std::vector<int64_t>& shape, const void* data) {
  return make_constant({from_dlpack(code, bits), Shape(shape.begin(), shape.end())}, data);
}

void check(GantryStatus status) {
  if (status != GANTRY_OK) throw std::runtime_error(gantry_last_error());
}

}  // namespace

std::vector<std::byte> compile_to_bytes(const Graph& graph, const CompileSettings& settings) {
  CompileOptions options;
  options.targets = {find_target(settings.target)};
  options.opt_level = settings.opt_level;
  options.threads = settings.threads;
  options.precision = find_precision(settings.precision);
  options.verify = true;
  ModuleFile module = compile_graph(graph, options);
  return serialize_module(module);
}

struct LocalModel::Impl {
  GantryModule* module = nullptr;
  GantrySession* session = nullptr;

  ~Impl() {
    gantry_session_release(session);
    gantry_module_release(module);
  }
};

bool runs_here(const std::string& target) {
#ifdef __x86_64__
  if (target == "x86-64-v4") return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  return target != "x86-64-v3" || (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#else
  return !target.starts_with("x86-64");
#endif
}

std::string device_for(const std::string& target) {
  for (const std::string device : {"cuda-emulated", "cuda"}) {
    if (target.starts_with(device)) return device;
  }
  return "cpu";
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

std::vector<ConstantPtr> run_on_board(rpc::BoardClient& board, const std::vector<std::byte>& module_file,
                                      const std::vector<ConstantPtr>& inputs, int threads) {
  const rpc::LoadedModule module = board.load(board.upload(std::span(module_file)), {.threads = threads});
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ConstantData& input = *inputs[i];
    const DLDataType type = to_dlpack(input.type.dtype);
    const std::vector<int64_t> shape = *constant_shape(input.type.shape);
    board.set_input(module.handle, static_cast<int32_t>(i), {type.code, type.bits}, shape,
                    {input.bytes, input.size});
  }
  board.run(module.handle);
  std::vector<ConstantPtr> outputs;
  for (size_t i = 0; i < module.outputs.size(); ++i) {
    const rpc::Tensor output = board.get_output(module.handle, static_cast<int32_t>(i));
    outputs.push_back(to_constant(output.type.code, output.type.bits, output.shape, output.bytes.data()));
  }
  board.unload(module.handle);
  return outputs;
}

std::optional<std::string> emulated_board_program() {
  namespace fs = std::filesystem;
  for (const char* qemu : {"/usr/bin/qemu-aarch64", "/usr/bin/qemu-aarch64-static"}) {
    const fs::path device = fs::weakly_canonical(GANTRY_SOURCE_DIR) / "build-aarch64/bin/gantry-device";
    if (fs::exists(qemu) && fs::exists(device)) return std::string(qemu) + " " + device.string();
  }
  return std::nullopt;
}

EmulatedBoard::EmulatedBoard() : server_({}, emulated_board_program().value()) {
  rpc::ConnectOptions options;
  options.address = server_.address();
  options.connect_timeout = std::chrono::seconds(30);  // emulation is slow
  client_ = rpc::BoardClient::connect(options);
}

ConstantPtr ramp(const std::vector<int64_t>& shape) {
  std::byte* bytes = nullptr;
  auto tensor = allocate_constant({DType::kF32, Shape(shape.begin(), shape.end())}, &bytes);
  const size_t count = tensor->size / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    reinterpret_cast<float*>(bytes)[i] =
        static_cast<float>(static_cast<double>(i) / static_cast<double>(count));
  }
  return tensor;
}

ConstantPtr random_tensor(DType dtype, const std::vector<int64_t>& shape, uint64_t seed) {
  std::byte* bytes = nullptr;
  auto tensor = allocate_constant({dtype, Shape(shape.begin(), shape.end())}, &bytes);
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < tensor->size / static_cast<size_t>(byte_width(dtype)); ++i) {
    if (dtype == DType::kF32) {
      reinterpret_cast<float*>(bytes)[i] =
          static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1);
    } else if (dtype == DType::kI64) {
      reinterpret_cast<int64_t*>(bytes)[i] = static_cast<int64_t>(random() % 97);
    } else {
      throw std::runtime_error("random_tensor makes f32 and i64 only");
    }
  }
  return tensor;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
double relative_error_of(const float* actual, const T* expected, size_t count) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const double a = actual[i], e = expected[i];
    if (std::isnan(a) && std::isnan(e)) continue;
    if (!std::isfinite(a) || !std::isfinite(e)) {
      if (a != e) return kInfinity;
      continue;
    }
    difference = std::max(difference, std::abs(a - e));
    largest = std::max(largest, std::abs(e));
  }
  if (difference == 0) return 0;
  return largest > 0 ? difference / largest : kInfinity;
}

}  // namespace

double relative_error(const ConstantData& actual, const ConstantData& expected) {
  if (!(actual.type == expected.type) || expected.type.dtype != DType::kF32) return kInfinity;
  return relative_error_of(actual.as<float>(), expected.as<float>(), expected.size / sizeof(float));
}

double relative_error(const ConstantData& actual, const std::vector<double>& expected) {
  if (actual.type.dtype != DType::kF32 || actual.size != expected.size() * sizeof(float)) return kInfinity;
  return relative_error_of(actual.as<float>(), expected.data(), expected.size());
}

}  // namespace gantry::testing
