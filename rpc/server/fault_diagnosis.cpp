#include "rpc/server/fault_diagnosis.h"

#include "rpc/protocol/message.h"

namespace gantry::rpc {

using std::chrono::milliseconds;

bool is_on_gpu(const wire::LoadModuleT& load) {
  return load.device.starts_with("cuda") && load.device != "cuda-emulated";
}

FaultDiagnosis::FaultDiagnosis(asio::any_io_executor executor, const ExecutorSetup& setup)
    : executor_(std::move(executor)), setup_(setup) {}

void FaultDiagnosis::note(const wire::RequestT& request, const Attachments& attachments,
                          const wire::ResponseT& answer) {
  const auto* load = request.body.AsLoadModule();
  const auto* module = answer.body.AsModuleLoaded();
  if (load && module && is_on_gpu(*load)) {
    Loaded& loaded = loaded_[module->handle];
    loaded.load.request = request;
    loaded.load.attachments = duplicate(attachments);
  } else if (const auto* input = request.body.AsSetInput(); input && answer.body.AsDone()) {
    const auto found = loaded_.find(input->handle);
    if (found == loaded_.end()) return;
    Request& kept = found->second.inputs[input->index];
    kept.request = request;
    kept.attachments = duplicate(attachments);
  } else if (const auto* unload = request.body.AsUnloadModule()) {
    loaded_.erase(unload->handle);
  }
}

void FaultDiagnosis::kill() noexcept {
  killed_ = true;
  if (process_) process_->kill();
}

asio::awaitable<wire::ResponseT> FaultDiagnosis::ask(const Request& request, milliseconds deadline) {
  if (killed_) throw Error(ErrorKind::kReconnect, "the session ended");
  const Bytes frame = encode_request(1, request.request);
  const auto ignore = [](const Bytes&) -> asio::awaitable<void> { co_return; };
  const auto reply = co_await process_->call(frame, request.attachments, deadline, ignore);
  co_return decode_response(std::span(reply.frame).subspan(kFrameHeaderSize));
}

asio::awaitable<std::string> FaultDiagnosis::run_again(std::uint32_t handle, milliseconds deadline) {
  const auto found = loaded_.find(handle);
  if (found == loaded_.end()) co_return "";
  std::string result;
  try {
    process_.emplace(executor_, setup_);
    const wire::ResponseT loaded = co_await ask(found->second.load, deadline);
    if (!loaded.body.AsModuleLoaded()) {
      process_.reset();
      co_return "";
    }
    const std::uint32_t fresh = loaded.body.AsModuleLoaded()->handle;
    for (auto& [index, input] : found->second.inputs) {
      input.request.body.AsSetInput()->handle = fresh;
      co_await ask(input, deadline);
    }
    wire::RunT run;
    run.handle = fresh;
    Request request;
    request.request = make_request(run);
    const wire::ResponseT answer = co_await ask(request, deadline);
    if (const auto* failure = answer.body.AsFailure())
      result = "; run once more, kernel by kernel: " + failure->message;
    else
      result = "; run once more, kernel by kernel, with the same inputs, it did not fault";
  } catch (const std::exception& error) {
    result = std::string("; run once more, kernel by kernel: ") + error.what();
  }
  process_.reset();
  co_return result;
}

}  // namespace gantry::rpc
