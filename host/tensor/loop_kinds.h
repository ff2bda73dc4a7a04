// How the iterations of a loop run.
#pragma once

#include <cstdint>
#include <map>

namespace gantry {

struct IterVar;

enum class LoopKind : uint8_t {
  kSerial,
  kParallel,
  kVectorized,
  kUnrolled,
  kBlock,           ///< GPU: an iteration a thread block of the grid
  kThread,          ///< GPU: an iteration a thread of the block
  kEmulatedBlock,   ///< kBlock run on a CPU: any order or at once (host/loops/launch.h makes these)
  kEmulatedThread,  ///< kThread run on a CPU, one after another
};

/// The kinds of a stage's loops; those that nothing was said of are serial.
class LoopKinds {
 public:
  LoopKind of(const IterVar* leaf) const { return run_of(leaf).kind; }
  /// 1, except of parallel loops.
  int64_t rounds_of(const IterVar* leaf) const { return run_of(leaf).rounds; }
  /// Nothing was said of any.
  bool empty() const { return runs_.empty(); }

  void set(const IterVar* leaf, LoopKind kind) { runs_[leaf] = {kind, 1}; }
  /// See Stage::parallel.
  void set_parallel(const IterVar* leaf, int64_t rounds) { runs_[leaf] = {LoopKind::kParallel, rounds}; }

 private:
  struct Run {
    LoopKind kind = LoopKind::kSerial;
    int64_t rounds = 1;
  };
  Run run_of(const IterVar* leaf) const {
    const auto run = runs_.find(leaf);
    return run == runs_.end() ? Run() : run->second;
  }

  std::map<const IterVar*, Run> runs_;
};

}  // namespace gantry
