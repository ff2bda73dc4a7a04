// Finds what kernels of the emulated GPU do wrong: accesses out of bounds, reads of memory that nobody has
// stored to, and races.
//
// Two accesses of an element race if at least one is a store and nothing orders them: they are of different
// threads of one block with no barrier between, or of different blocks of one launch. Each element of a
// buffer that a kernel stores to remembers its last store and its loads by epoch, a number that grows with
// every kernel, launch, block and barrier. As blocks run one after another, an epoch tells which of these an
// access belongs to, and what has been remembered never needs to be cleared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device_runtime/src/memory.h"
#include "gantry/kernel_abi.h"

namespace gantry::runtime {

/// Belongs to one thread at a time.
class GpuChecker {
 public:
  GpuChecker();
  GpuChecker(const GpuChecker&) = delete;

  /// What kernels report to; lives as long as this.
  const GantryGpuChecker* table() const { return &table_; }
  /// What the last kernel did wrong: launch, block, thread, buffer and element. Empty if nothing.
  const std::string& problem() const { return problem_; }

 private:
  /// Where an epoch is 0, there was no such access.
  struct Element {
    uint32_t stored = 0;      ///< epoch of the last store
    uint32_t first_load = 0;  ///< epoch of the first load in the launch of the last one
    uint32_t last_load = 0;   ///< epoch of the last load
    uint16_t writer = 0;      ///< thread of the last store
    uint16_t reader = 0;      ///< thread of the loads in epoch last_load; kMany
  };
  struct Buffer {
    const char* name = "";
    int64_t count = 0;
    int32_t kind = 0;
    AlignedBuffer elements;
  };
  struct Access {
    const Buffer* buffer;
    int32_t kind;
    int64_t thread, index;
  };
  /// Blocks of this launch, in order.
  struct Block {
    uint32_t epoch;
    int64_t x, y, z;
  };

  int32_t begin_kernel(int32_t buffer_count);
  int32_t add_buffer(int32_t id, const char* name, int64_t count, int32_t kind);
  int32_t begin_launch(int64_t threads);
  int32_t begin_block(int64_t x, int64_t y, int64_t z);
  int32_t access(int32_t id, int32_t kind, int64_t thread, int64_t index, int64_t stride, int32_t count);
  int32_t load(const Access& access, Element& element);
  int32_t store(const Access& access, Element& element);
  void forget();

  int32_t out_of_bounds(const Access& access);
  int32_t undefined(const Access& access);
  /// `access` conflicts with what was done ("stored", "loaded") in `epoch` by `thread`.
  int32_t race(const Access& access, const char* done, uint32_t epoch, int64_t thread);
  std::string describe(const Access& access) const;

  GantryGpuChecker table_;
  std::vector<Buffer> buffers_;
  std::vector<Block> blocks_;
  uint32_t epoch_ = 0, kernel_epoch_ = 0, launch_epoch_ = 0, block_epoch_ = 0;
  uint64_t launch_ = 0;  ///< of this kernel, from 1
  int64_t threads_ = 0;
  std::string problem_;
};

}  // namespace gantry::runtime
