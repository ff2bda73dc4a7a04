#include "benchmarks/gpu/fault.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>

#include "rpc/client/client.h"
#include "tests/cases/local_model.h"

namespace gantry::gpu_bundle {
namespace {

using conformance::PackedCase;
using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kDeadline{15000};
/// What an error must say: the kernel's symbol, the op of its step, the node that it computes.
constexpr const char* kNamed[] = {"kernel scale", "Mul_1", "failed on the GPU"};
constexpr const char* kAgain = "once more, kernel by kernel: kernel scale";

/// A session with a module loaded on the GPU.
class GpuSession {
 public:
  GpuSession(const std::string& address, const PackedCase& c) : case_(c) {
    rpc::ConnectOptions options;
    options.address = address;
    client_ = rpc::BoardClient::connect(options);
    load();
  }
  void load() {
    rpc::LoadOptions options;
    options.threads = 1;
    options.device = "cuda";
    const auto* bytes = reinterpret_cast<const std::byte*>(case_.program.data());
    module_ = client_->load(client_->upload(std::span(bytes, case_.program.size())), options);
  }
  /// Runs on the inputs of `c`.
  void run(const PackedCase& c) {
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const ConstantData& input = *c.inputs[i];
      const DLDataType type = to_dlpack(input.type.dtype);
      client_->set_input(module_.handle, static_cast<int32_t>(i), {type.code, type.bits},
                         *constant_shape(input.type.shape), {input.bytes, input.size});
    }
    client_->run(module_.handle, kDeadline);
  }
  /// As run, and compares.
  std::string run_right(const PackedCase& c) {
    run(c);
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const rpc::Tensor output = client_->get_output(module_.handle, static_cast<int32_t>(i));
      const ConstantPtr actual =
          to_constant(output.type.code, output.type.bits, output.shape, output.bytes.data());
      const std::string text = conformance::difference(*actual, *c.outputs[i], c.tolerance);
      if (!text.empty()) throw std::runtime_error(text);
    }
    return "its results are right";
  }
  /// What the board says of a run that must fail.
  std::string run_wrong(const PackedCase& c) {
    try {
      run(c);
    } catch (const rpc::Error& error) {
      return error.what();
    }
    throw std::runtime_error("a kernel that writes to where no memory is was not noticed");
  }

 private:
  const PackedCase& case_;
  std::unique_ptr<rpc::BoardClient> client_;
  rpc::LoadedModule module_;
};

/// Steps one after another; after one that fails the others are left out.
class Steps {
 public:
  void add(const char* name, const std::function<std::string()>& work) {
    Json step = {{"name", name}, {"result", "pass"}};
    try {
      if (failed_) throw std::runtime_error("left out, as a step before it failed");
      step["text"] = work();
    } catch (const std::exception& error) {
      failed_ = true;
      step["result"] = "failed";
      step["text"] = error.what();
    }
    steps_.push_back(std::move(step));
  }
  Json result() const { return {{"result", failed_ ? "failed" : "pass"}, {"steps", steps_}}; }

 private:
  Json steps_ = Json::array();
  bool failed_ = false;
};

std::string must_say(const std::string& text, std::span<const char* const> parts) {
  for (const char* part : parts) {
    if (text.find(part) == std::string::npos)
      throw std::runtime_error(fmt::format("the error does not say '{}': {}", part, text));
  }
  return text;
}

}  // namespace

Json provoke_fault(const conformance::CasePack& pack, const std::string& address) {
  const PackedCase right = pack.load("first_kernel"), wrong = pack.load("faulty_kernel");
  std::unique_ptr<GpuSession> beside, faulty;
  Steps steps;
  steps.add("a session runs beside", [&] {
    beside = std::make_unique<GpuSession>(address, right);
    return beside->run_right(right);
  });
  steps.add("a fault names its kernel", [&] {
    faulty = std::make_unique<GpuSession>(address, right);
    return must_say(faulty->run_wrong(wrong), kNamed);
  });
  steps.add("the session beside it goes on", [&] { return beside->run_right(right); });
  steps.add("the faulty session loads again", [&] {
    faulty->load();
    return faulty->run_right(right);
  });
  steps.add("a fault in a replay names its kernel too", [&] {
    faulty->run_right(right);
    return must_say(faulty->run_wrong(wrong), std::span(&kAgain, 1));
  });
  steps.add("and the session beside it goes on", [&] { return beside->run_right(right); });
  return steps.result();
}

}  // namespace gantry::gpu_bundle
