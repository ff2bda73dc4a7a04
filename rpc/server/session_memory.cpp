#include "rpc/server/session_memory.h"

#include <algorithm>

#include "device_runtime/src/memory.h"

namespace gantry::rpc {
namespace {

/// Below this it is not worth asking how much memory is left.
constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

/// Of an output whose size only shows when the module has run, as that of strings does, all that there is.
std::uint64_t output_bytes(const wire::TensorDescriptionT& output, std::uint64_t most) {
  const bool known = std::all_of(output.shape.begin(), output.shape.end(), [](auto n) { return n >= 0; });
  if (!known || output.type->code() == kStringCode) return most;
  try {
    return std::min(dense_bytes(output.type->bits(), output.shape), most);
  } catch (const Error&) {
    return most;  // absurd: the executor will say so
  }
}

}  // namespace

SessionMemory::SessionMemory(const asio::any_io_executor& executor, std::uint64_t capacity, MemoryShare share)
    : changed_(executor), capacity_(capacity), share_(share) {}

void SessionMemory::Hold::arrived(std::uint64_t bytes) {
  const MemoryShare& share = memory_->share_;
  if (share.board && !share.board->take(share.slot, bytes))
    throw Error(ErrorKind::kRetry, "all sessions of this board together hold as much data as they may (" +
                                       mebibytes(share.board->capacity()) + "); try again later");
  arrived_ += bytes;
}

void SessionMemory::Hold::release() noexcept {
  if (!memory_) return;
  memory_->on_their_way_ -= reserved_;
  if (memory_->share_.board) memory_->share_.board->give_back(memory_->share_.slot, arrived_);
  memory_->changed_.notify_all();
  memory_ = nullptr;
}

asio::awaitable<SessionMemory::Hold> SessionMemory::reserve(const wire::RequestT& request,
                                                            std::uint64_t frame_bytes) {
  const std::uint64_t size = following_bytes(request);
  if (size > capacity_)
    throw Error(ErrorKind::kBoard, "data of " + mebibytes(size) +
                                       " is more than a session of this board may use (" +
                                       mebibytes(capacity_) + "); see gantry-device's --session-memory");
  if (size >= kLarge) {
    const auto left = runtime::available_memory_bytes();
    if (left && size > *left)
      throw Error(ErrorKind::kRetry, "data of " + mebibytes(size) + " is more than the board has left now (" +
                                         mebibytes(*left) + "); try again later");
  }
  for (;;) {
    // Again each time: a module that was loaded meanwhile says how large its outputs are.
    const std::uint64_t bytes = std::min(frame_bytes + size + answer_bytes(request), capacity_);
    if (on_their_way_ == 0 || closed_ || bytes <= capacity_ - std::min(on_their_way_, capacity_)) {
      on_their_way_ += bytes;
      co_return Hold(this, bytes);
    }
    co_await changed_.wait();
  }
}

std::uint64_t SessionMemory::answer_bytes(const wire::RequestT& request) const {
  // How long a benchmark's result is shows when it is there.
  const auto* benchmark = request.body.AsBenchmark();
  if (benchmark && benchmark->long_result) return kMaxResultBytes;
  const auto* get = request.body.AsGetOutput();
  if (!get) return 0;
  const auto found = outputs_.find(get->handle);
  if (found == outputs_.end()) return capacity_;
  const auto index = static_cast<std::size_t>(get->index);
  return index < found->second.size() ? found->second[index] : 0;  // no such output: the executor says so
}

std::uint64_t SessionMemory::kept_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [what, hold] : kept_) sum += hold.arrived_;
  return sum;
}

void SessionMemory::check_kept(const wire::RequestT& request) const {
  const auto* input = request.body.AsSetInput();
  const auto* load = request.body.AsLoadModule();
  const std::uint64_t size = input || (load && load->whole) ? following_bytes(request) : 0;
  std::uint64_t kept = kept_bytes();
  if (input) {
    const auto replaced = kept_.find({input->handle, input->index});
    if (replaced != kept_.end()) kept -= replaced->second.arrived_;
  }
  if (size > 0 && kept + size > capacity_)
    throw Error(ErrorKind::kBoard, "inputs and modules of " + mebibytes(kept + size) +
                                       " together are more than a session of this board may use (" +
                                       mebibytes(capacity_) + "); see gantry-device's --session-memory");
}

void SessionMemory::note(const wire::RequestT& request, const wire::ResponseT& response, Hold& hold) {
  const auto keep = [&](std::uint32_t handle, std::int32_t index) {
    on_their_way_ -= std::exchange(hold.reserved_, 0);
    kept_[{handle, index}] = std::move(hold);
    changed_.notify_all();
  };
  if (const auto* input = request.body.AsSetInput(); input && response.body.AsDone()) {
    keep(input->handle, input->index);
  } else if (const auto* module = response.body.AsModuleLoaded()) {
    std::vector<std::uint64_t>& sizes = outputs_[module->handle];
    for (const auto& output : module->outputs) sizes.push_back(output_bytes(*output, capacity_));
    if (const auto* load = request.body.AsLoadModule(); load && load->whole) keep(module->handle, -1);
  } else if (const auto* unload = request.body.AsUnloadModule(); unload && response.body.AsDone()) {
    outputs_.erase(unload->handle);
    std::erase_if(kept_, [&](const auto& entry) { return entry.first.first == unload->handle; });
  }
}

void SessionMemory::forget() {
  kept_.clear();
  outputs_.clear();
}

void SessionMemory::close() {
  closed_ = true;
  changed_.notify_all();
}

}  // namespace gantry::rpc
