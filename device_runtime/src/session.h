// A session: one user's inputs, outputs, workspace and threads for a module. The C++ side of
// gantry/runtime.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device_runtime/src/affinity.h"
#include "device_runtime/src/data_type.h"
#include "device_runtime/src/executor.h"
#include "device_runtime/src/memory.h"
#include "device_runtime/src/module_reader.h"
#include "device_runtime/src/thread_pool.h"

namespace gantry::runtime {

struct SessionOptions {
  int threads = 0;            ///< 0: as many as `cpus`, or one a physical core allowed to this process
  std::vector<int> cpus;      ///< thread i is pinned to cpus[i]; thread 0 is the one that creates the session
  uint64_t memory_limit = 0;  ///< bytes of workspace, inputs and outputs together; 0: what the machine has
};

/// A tensor of a session; valid until its next run, set_input with another shape, or end.
struct OutputView {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  ElementType type = ElementType::kF32;
  std::span<const int64_t> shape;
};

/// An output's memory. While somebody holds it, no run writes to it.
class OutputMemory {
 public:
  std::byte* data() const { return buffer_.data(); }
  bool is_held() const { return holders_.load(std::memory_order_acquire) > 0; }
  void hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
  /// From any thread; what the holder read or wrote comes before what later runs write.
  void let_go() { holders_.fetch_sub(1, std::memory_order_release); }
  /// Of memory that nobody holds.
  Status reserve(uint64_t bytes) { return buffer_.reserve(bytes, "an output"); }
  /// Of memory that nobody holds: see AlignedBuffer::shrink.
  void shrink(uint64_t bytes) { buffer_.shrink(bytes); }
  uint64_t capacity() const { return buffer_.capacity(); }

 private:
  AlignedBuffer buffer_;
  std::atomic<int> holders_ = 0;
};

struct SessionMemory {
  uint64_t workspace_bytes = 0;  ///< 0 before the shapes are known
  uint64_t weights_bytes = 0;
  uint64_t io_bytes = 0;  ///< of all inputs and outputs, borrowed ones too
  /// In a GPU's memory: intermediates; the weights, which all sessions of the module share; inputs and
  /// outputs.
  uint64_t device_workspace_bytes = 0, device_weights_bytes = 0, device_io_bytes = 0;
};

/// Belongs to one thread at a time.
class Session : private RunMemory {
 public:
  /// Starts the threads; a model without symbolic dimensions also gets its memory.
  /// Errors: those of ThreadPool::create and prepare.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Module> module,
                                                 const SessionOptions& options);
  ~Session() override;
  Session(const Session&) = delete;

  /// See gantry_set_input. INVALID_ARGUMENT names the input, what was expected and what was given. A borrowed
  /// tensor that is strided or does not start at a multiple of 64 bytes is copied at every run.
  Status set_input(int index, const DLTensor& tensor, bool borrow);
  /// Memory of an input of that shape, for the caller to fill; the input counts as set.
  Result<std::span<std::byte>> input_storage(int index, std::span<const int64_t> shape);
  /// Gives an input of strings, as packed_strings.h packs them; copied.
  Status set_strings(int index, std::span<const int64_t> shape, std::span<const std::byte> packed);
  /// The strings of the last run, by the numbers in its outputs; null where the module has none.
  const SessionStrings* known_strings() const { return strings_.get(); }

  /// Binds the symbols to the shapes given, checks the model's constraints and provides all memory. run()
  /// does the same where it has not been done. INVALID_ARGUMENT for missing inputs and shapes that do not
  /// fit; OUT_OF_MEMORY.
  Status prepare();
  Status run();
  /// Whether there are outputs of a run.
  bool has_run() const { return has_run_; }
  /// As run; `nanoseconds` receives the time of each step of the executor() that ran.
  Status run_timed(std::vector<int64_t>& nanoseconds);
  /// As run; `timeline` receives when each step and each thread computed. INVALID_ARGUMENT: too many of both.
  Status run_traced(RunTimeline& timeline);
  /// As run; `instructions` receives what each step executes, on all threads. INCOMPATIBLE, with why, where
  /// nothing counts that.
  Status run_counted(std::vector<uint64_t>& instructions);
  /// Runs `number` times; `elapsed_ms` receives the time of all together, on a GPU by its own clock and
  /// without what moves inputs and outputs between it and the host.
  Status run_repeatedly(int number, double& elapsed_ms);
  /// Overwrites the caches of a device other than the CPU.
  Status flush_device_caches() { return executor_->flush_caches(); }
  /// INVALID_ARGUMENT before the first run.
  Result<OutputView> output(int index) const;
  /// The output's memory, held for the caller, who lets it go; later runs write elsewhere. Null where the
  /// device's runs always write to the same memory. Errors as output().
  Result<std::shared_ptr<OutputMemory>> hold_output(int index);

  const Module& module() const { return *module_; }
  const std::shared_ptr<const Module>& shared_module() const { return module_; }
  /// Steps with their labels and work; valid once prepared.
  const Executor& executor() const { return *executor_; }
  int threads() const { return pool_->threads(); }
  /// The session's threads, for what is done around runs.
  ThreadPool& pool() { return *pool_; }
  SessionMemory memory() const;

 private:
  struct Input {
    AlignedBuffer storage;
    std::vector<int64_t> shape;
    uint64_t bytes = 0;
    bool is_set = false;
    std::byte* data = nullptr;  ///< what kernels read
    // A borrowed tensor that is copied at every run.
    std::optional<DLTensor> copied_from;
    std::vector<int64_t> copied_shape, copied_strides;
  };
  struct Output {
    std::shared_ptr<OutputMemory> memory = std::make_shared<OutputMemory>();
    std::shared_ptr<OutputMemory> spare;  ///< was held when another run began; may be free again
    std::vector<int64_t> shape;
    uint64_t bytes = 0;
    ElementType type = ElementType::kF32;
    /// Memory beyond the output, in bytes, that is kept for runs to come; what somebody holds is his.
    uint64_t kept_bytes() const;
    void let_go_of_kept();
  };

  explicit Session(std::shared_ptr<const Module> module);
  Status set_constant_shapes();
  Status check_index(int index, size_t count, const char* role) const;
  Status check_shape(int index, std::span<const int64_t> shape, const std::string& given) const;
  Status set_shape(int index, std::span<const int64_t> shape);
  /// Values of the symbols; absent where a step of the plan binds them.
  Status bind_symbols(std::vector<std::optional<int64_t>>& values) const;
  /// The module, or the specialized one that the sizes fit.
  const Module& module_for(std::span<const std::optional<int64_t>> symbols) const;
  /// Runs that module's plan from now on.
  void use(const Module& module);
  Status check_inputs(const DimValues& dims) const;
  Status check_constraints(const DimValues& dims) const;
  /// Of inputs that nobody has given yet.
  Status provide_inputs();
  Status provide_memory(const DimValues& dims);
  Status set_output_shape(Output& output, uint32_t index, std::span<const int64_t> shape);
  uint64_t io_bytes() const;
  void begin_run() override;
  /// Whether a run may take so many bytes of workspace, inputs and outputs in all. Where what is kept of
  /// outputs would not fit beside them, it is let go of.
  bool make_room(double bytes);
  Result<std::byte*> provide_output(uint32_t output, std::span<const int64_t> shape) override;
  /// Of a size that shows while the plan runs, if there is room for it beside what is taken.
  Status provide_late_output(Output& output, uint32_t index, std::span<const int64_t> shape);
  Status allow_workspace(uint64_t bytes) override;
  static Status provide_output(Output& output);
  Status before_run();
  /// Numbers for the strings of this run's inputs.
  Status write_strings();
  SessionStrings* strings() override { return strings_.get(); }

  std::shared_ptr<const Module> module_;
  uint64_t memory_limit_ = 0;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::byte* workspace_ = nullptr;
  uint64_t workspace_bytes_ = 0;
  struct ModuleExecutor {
    const Module* module = nullptr;
    std::unique_ptr<Executor> executor;
  };
  std::vector<ModuleExecutor> executors_;  ///< of those that ran, with their workspaces
  const Module* used_ = nullptr;  ///< the module, or a specialized one
  Executor* executor_ = nullptr;  ///< of that
  bool sizes_show_late_ = false;  ///< outputs get their memory while the plan runs
  bool prepared_ = false;
  bool has_run_ = false;
  std::unique_ptr<SessionStrings> strings_;  ///< null: the module has none
  CallerPin caller_pin_;                     ///< of the creating thread
};

}  // namespace gantry::runtime
