// A GPU that this process uses, and memory on it.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "device_runtime/src/cuda_driver.h"
#include "device_runtime/src/status.h"

namespace gantry::runtime::cuda {

/// The primary context of a GPU, shared by everything in the process that uses it. Thread-safe.
class Device {
 public:
  /// One for all who have it open at a time: a fault in a kernel of any is known to all. The GPU is the calling
  /// thread's afterwards. Errors: those of driver(); INCOMPATIBLE if there is no GPU of that number; those of enter().
  static Result<std::shared_ptr<Device>> open(int index);
  ~Device();
  Device() = default;
  Device(const Device&) = delete;

  const Driver& driver() const { return *driver_; }
  int index() const { return index_; }
  int compute_capability() const { return compute_capability_; }  ///< 10 * major + minor
  int max_threads() const { return max_threads_; }                ///< a block
  int64_t max_grid(int axis) const { return max_grid_[axis]; }    ///< blocks along x, y, z
  uint64_t l2_bytes() const { return l2_bytes_; }
  const std::string& bus_id() const { return bus_id_; }

  /// Makes the GPU the calling thread's. KERNEL_FAILED once the GPU is lost.
  Status enter() const;
  /// The status of a driver's call. A fault in a kernel costs the process its GPU: all later calls of enter()
  /// fail and say so.
  Status check(ResultCode code, const std::string& what) const;
  bool lost() const { return lost_.load(); }
  uint64_t free_bytes() const;

 private:
  Status start(int index);

  const Driver* driver_ = nullptr;
  DeviceHandle handle_ = 0;
  Context context_ = nullptr;
  int index_ = 0;
  int compute_capability_ = 0;
  int max_threads_ = 0;
  int64_t max_grid_[3] = {};
  uint64_t l2_bytes_ = 0;
  std::string bus_id_;
  mutable std::atomic<bool> lost_{false};
};

/// Memory of a GPU, or memory of the host that the GPU copies from and to directly. Movable.
class Memory {
 public:
  enum class Place { kDevice, kPinnedHost };
  explicit Memory(Place place = Place::kDevice) : place_(place) {}
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    Memory taken(static_cast<Memory&&>(other));
    swap(taken);
    return *this;
  }
  ~Memory() { release(); }

  /// Provides at least `bytes` at a multiple of 256; keeps what it has where that is enough, and else loses
  /// the contents. `what` names the buffer in the message of an OUT_OF_MEMORY error. The device must be
  /// entered.
  Status reserve(const std::shared_ptr<const Device>& device, uint64_t bytes, const char* what);
  DevicePointer device_address() const { return address_; }
  std::byte* host_address() const { return reinterpret_cast<std::byte*>(address_); }
  uint64_t capacity() const { return capacity_; }

 private:
  void swap(Memory& other);
  void release();
  std::shared_ptr<const Device> device_;
  Place place_ = Place::kDevice;
  uint64_t address_ = 0;
  uint64_t capacity_ = 0;
};

}  // namespace gantry::runtime::cuda
