#include "device_runtime/src/cuda_device.h"

#include <mutex>
#include <utility>

namespace gantry::runtime::cuda {
namespace {

/// Faults after which the driver refuses everything more to this process.
bool is_fatal(ResultCode code) {
  return code == 214 || code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719) ||
         code == 999;
}

}  // namespace

Result<std::shared_ptr<Device>> Device::open(int index) {
  Result<int> count = device_count();
  if (!count.ok()) return count.status();
  if (index < 0 || index >= *count) {
    return failure(GANTRY_INCOMPATIBLE, "this machine has no GPU %d: it has %d, numbered from 0", index,
                   *count);
  }
  static std::mutex mutex;
  // By number. The driver counts them once, as it starts; never freed, for threads that go on as the process exits.
  static auto* const known = new std::weak_ptr<Device>[static_cast<size_t>(*count)];
  const std::lock_guard lock(mutex);
  std::shared_ptr<Device> device = known[index].lock();
  if (device == nullptr) {
    device = std::make_shared<Device>();
    GANTRY_TRY(device->start(index));
    known[index] = device;
  }
  GANTRY_TRY(device->enter());
  return device;
}

Status Device::start(int index) {
  const Driver& driver = **cuda::driver();
  driver_ = &driver;
  index_ = index;
  GANTRY_TRY(driver.check(driver.device(&handle_, index), "opening the GPU"));
  const auto attribute = [&](int which) {
    int value = 0;
    driver.device_attribute(&value, which, handle_);
    return value;
  };
  compute_capability_ = 10 * attribute(kAttributeCapabilityMajor) + attribute(kAttributeCapabilityMinor);
  max_threads_ = attribute(kAttributeMaxThreadsPerBlock);
  max_grid_[0] = attribute(kAttributeMaxGridX);
  max_grid_[1] = attribute(kAttributeMaxGridY);
  max_grid_[2] = attribute(kAttributeMaxGridZ);
  l2_bytes_ = static_cast<uint64_t>(attribute(kAttributeL2Bytes));
  char id[64] = "";
  if (driver.device_bus_id(id, sizeof id, handle_) == 0) bus_id_ = id;
  return driver.check(driver.retain_primary(&context_, handle_), "starting the GPU");
}

Device::~Device() {
  if (context_ != nullptr) driver_->release_primary(handle_);
}

Status Device::enter() const {
  if (lost()) {
    return failure(
        GANTRY_KERNEL_FAILED,
        "the GPU is lost to this process by the fault reported earlier: start it again and load the module "
        "there");
  }
  return driver_->check(driver_->set_current(context_), "using the GPU");
}

Status Device::check(ResultCode code, const std::string& what) const {
  if (is_fatal(code)) lost_ = true;
  return driver_->check(code, what.c_str());
}

uint64_t Device::free_bytes() const {
  size_t free = 0, total = 0;
  return enter().ok() && driver_->memory_info(&free, &total) == 0 ? free : 0;
}

void Memory::swap(Memory& other) {
  std::swap(device_, other.device_);
  std::swap(place_, other.place_);
  std::swap(address_, other.address_);
  std::swap(capacity_, other.capacity_);
}

void Memory::release() {
  if (address_ == 0) return;
  if (device_->enter().ok()) {
    if (place_ == Place::kDevice) {
      device_->driver().release(address_);
    } else {
      device_->driver().release_host(host_address());
    }
  }
  address_ = 0;
  capacity_ = 0;
}

Status Memory::reserve(const std::shared_ptr<const Device>& device, uint64_t bytes, const char* what) {
  if (bytes == 0) bytes = 1;
  if (address_ != 0 && bytes <= capacity_) return Status();
  release();
  device_ = device;
  const Driver& driver = device->driver();
  ResultCode code = 0;
  if (place_ == Place::kDevice) {
    code = driver.allocate(&address_, bytes);
  } else {
    void* data = nullptr;
    code = driver.allocate_host(&data, bytes, 0);
    address_ = reinterpret_cast<uint64_t>(data);
  }
  if (code == kErrorOutOfMemory) {
    address_ = 0;
    const bool on_device = place_ == Place::kDevice;
    return failure(GANTRY_OUT_OF_MEMORY, "%s needs %s of %s%s: use smaller inputs or a smaller model", what,
                   byte_text(static_cast<double>(bytes)).c_str(),
                   on_device ? "the GPU's memory, which has free " : "memory that the GPU can reach",
                   on_device ? byte_text(static_cast<double>(device->free_bytes())).c_str() : "");
  }
  if (code != 0) address_ = 0;
  GANTRY_TRY(device->check(code, what));
  capacity_ = bytes;
  return Status();
}

}  // namespace gantry::runtime::cuda
