#include "device_runtime/src/gpu_checker.h"

#include <string.h>

#include <algorithm>

namespace gantry::runtime {

namespace {

constexpr uint16_t kMany = 0xffff;  // more than one thread, or all
constexpr uint32_t kLastEpoch = 0xfffffff0;
// A launch of more blocks than this keeps the coordinates of the first ones for its messages.
constexpr size_t kMaxBlocks = size_t{1} << 22;

uint16_t short_thread(int64_t thread) {
  return thread < 0 ? kMany : static_cast<uint16_t>(thread);
}

}  // namespace

GpuChecker::GpuChecker() {
  table_.struct_size = sizeof table_;
  table_.context = this;
  table_.begin_kernel = [](void* self, int32_t buffers) {
    return static_cast<GpuChecker*>(self)->begin_kernel(buffers);
  };
  table_.add_buffer = [](void* self, int32_t id, const char* name, int64_t count, int32_t kind) {
    return static_cast<GpuChecker*>(self)->add_buffer(id, name, count, kind);
  };
  table_.begin_launch = [](void* self, int64_t threads) {
    return static_cast<GpuChecker*>(self)->begin_launch(threads);
  };
  table_.begin_block = [](void* self, int64_t x, int64_t y, int64_t z) {
    return static_cast<GpuChecker*>(self)->begin_block(x, y, z);
  };
  table_.barrier = [](void* self) -> int32_t {
    ++static_cast<GpuChecker*>(self)->epoch_;
    return 0;
  };
  table_.access = [](void* self, int32_t id, int32_t kind, int64_t thread, int64_t index, int64_t stride,
                     int32_t count) {
    return static_cast<GpuChecker*>(self)->access(id, kind, thread, index, stride, count);
  };
}

int32_t GpuChecker::begin_kernel(int32_t buffer_count) {
  problem_.clear();
  launch_ = 0;
  if (buffer_count < 0) return 1;
  if (buffers_.size() < static_cast<size_t>(buffer_count)) buffers_.resize(static_cast<size_t>(buffer_count));
  if (epoch_ > kLastEpoch / 2) forget();
  kernel_epoch_ = ++epoch_;
  return 0;
}

void GpuChecker::forget() {
  for (Buffer& buffer : buffers_) {
    if (buffer.elements.data() != nullptr) memset(buffer.elements.data(), 0, buffer.elements.capacity());
  }
  epoch_ = 0;
}

int32_t GpuChecker::add_buffer(int32_t id, const char* name, int64_t count, int32_t kind) {
  if (id < 0 || static_cast<size_t>(id) >= buffers_.size()) return 1;
  Buffer& buffer = buffers_[static_cast<size_t>(id)];
  buffer.name = name;
  buffer.count = std::max<int64_t>(count, 0);
  buffer.kind = kind;
  if ((kind & GANTRY_BUFFER_READ_ONLY) != 0) return 0;
  if (Status s =
          buffer.elements.reserve(static_cast<uint64_t>(buffer.count) * sizeof(Element), "the GPU checker");
      !s.ok()) {
    problem_ = s.message();
    return 1;
  }
  return 0;
}

int32_t GpuChecker::begin_launch(int64_t threads) {
  if (epoch_ > kLastEpoch) {
    problem_ = "the kernel has more barriers than the checker can count";
    return 1;
  }
  ++launch_;
  threads_ = threads;
  blocks_.clear();
  launch_epoch_ = ++epoch_;
  return 0;
}

int32_t GpuChecker::begin_block(int64_t x, int64_t y, int64_t z) {
  if (epoch_ > kLastEpoch) {
    problem_ = "the kernel has more barriers than the checker can count";
    return 1;
  }
  block_epoch_ = ++epoch_;
  if (blocks_.size() < kMaxBlocks) blocks_.push_back({block_epoch_, x, y, z});
  return 0;
}

int32_t GpuChecker::access(int32_t id, int32_t kind, int64_t thread, int64_t index, int64_t stride,
                           int32_t count) {
  Buffer& buffer = buffers_[static_cast<size_t>(id)];
  if (thread < 0 && threads_ == 1) thread = 0;
  auto* elements = reinterpret_cast<Element*>(buffer.elements.data());
  for (int32_t i = 0; i < count; ++i, index += stride) {
    const Access one{&buffer, kind, thread, index};
    if (index < 0 || index >= buffer.count) [[unlikely]]
      return out_of_bounds(one);
    if ((buffer.kind & GANTRY_BUFFER_READ_ONLY) != 0) continue;
    Element& element = elements[index];
    const int32_t code = (kind & GANTRY_ACCESS_STORE) != 0 ? store(one, element) : load(one, element);
    if (code != 0) [[unlikely]]
      return code;
  }
  return 0;
}

inline int32_t GpuChecker::load(const Access& access, Element& element) {
  const int32_t kind = access.buffer->kind;
  const bool shared = (kind & GANTRY_BUFFER_SHARED) != 0;
  if (shared ? element.stored < block_epoch_
             : (kind & GANTRY_BUFFER_UNDEFINED) != 0 && element.stored < kernel_epoch_) [[unlikely]]
    return undefined(access);
  const uint16_t thread = short_thread(access.thread);
  if (element.stored == epoch_ && element.writer != thread) [[unlikely]]
    return race(access, "stored", element.stored, element.writer);
  if (!shared && element.stored >= launch_epoch_ && element.stored < block_epoch_) [[unlikely]]
    return race(access, "stored", element.stored, element.writer);
  if (element.last_load != epoch_) {
    if (element.last_load < launch_epoch_) element.first_load = epoch_;
    element.last_load = epoch_;
    element.reader = thread;
  } else if (element.reader != thread) {
    element.reader = kMany;
  }
  return 0;
}

inline int32_t GpuChecker::store(const Access& access, Element& element) {
  const bool shared = (access.buffer->kind & GANTRY_BUFFER_SHARED) != 0;
  const uint16_t thread = short_thread(access.thread);
  if (element.stored == epoch_ && element.writer != thread) [[unlikely]]
    return race(access, "stored", element.stored, element.writer);
  if (element.last_load == epoch_ && element.reader != thread) [[unlikely]]
    return race(access, "loaded", element.last_load, element.reader);
  if (!shared) {
    if (element.stored >= launch_epoch_ && element.stored < block_epoch_) [[unlikely]]
      return race(access, "stored", element.stored, element.writer);
    if (element.last_load >= launch_epoch_ && element.first_load < block_epoch_) [[unlikely]]
      return race(access, "loaded", element.first_load, kMany);
  }
  element.stored = epoch_;
  element.writer = thread;
  return 0;
}

std::string GpuChecker::describe(const Access& access) const {
  const Block block = blocks_.empty() ? Block{} : blocks_.back();
  std::string who = format_text("launch %llu, block (%lld, %lld, %lld), ",
                                static_cast<unsigned long long>(launch_), static_cast<long long>(block.x),
                                static_cast<long long>(block.y), static_cast<long long>(block.z));
  who +=
      access.thread < 0 ? "all threads" : format_text("thread %lld", static_cast<long long>(access.thread));
  const char* verb = (access.kind & GANTRY_ACCESS_STORE) != 0 ? "stores to" : "loads";
  const char* scope = (access.buffer->kind & GANTRY_BUFFER_SHARED) != 0 ? "shared " : "";
  return who + format_text(": %s element %lld of %sbuffer %s", verb, static_cast<long long>(access.index),
                           scope, access.buffer->name);
}

int32_t GpuChecker::out_of_bounds(const Access& access) {
  problem_ = describe(access) + format_text(", which has %lld", static_cast<long long>(access.buffer->count));
  return 1;
}

int32_t GpuChecker::undefined(const Access& access) {
  const bool shared = (access.buffer->kind & GANTRY_BUFFER_SHARED) != 0;
  problem_ =
      describe(access) +
      (shared ? ", which no thread of the block has stored to yet (uninitialised, or a barrier is missing)"
              : ", which the kernel has not stored to (uninitialised)");
  return 1;
}

int32_t GpuChecker::race(const Access& access, const char* done, uint32_t epoch, int64_t thread) {
  const std::string who = thread == kMany ? std::string("other threads")
                                          : format_text("thread %lld", static_cast<long long>(thread));
  const char* have = thread == kMany ? "have" : "has";
  if (epoch >= block_epoch_) {
    problem_ =
        describe(access) + format_text(", which %s %s %s with no barrier between (a race between threads)",
                                       who.c_str(), have, done);
    return 1;
  }
  const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), epoch,
                                      [](uint32_t e, const Block& block) { return e < block.epoch; });
  std::string other = "another block";
  if (after != blocks_.begin() && after != blocks_.end()) {
    const Block& block = after[-1];
    other = format_text("block (%lld, %lld, %lld)", static_cast<long long>(block.x),
                        static_cast<long long>(block.y), static_cast<long long>(block.z));
  }
  if (thread != kMany) other = who + " of " + other;
  problem_ = describe(access) +
             format_text(", which %s has %s in the same launch (a race between blocks)", other.c_str(), done);
  return 1;
}

}  // namespace gantry::runtime
