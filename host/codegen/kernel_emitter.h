// One kernel: loop IR -> LLVM IR. See GantryKernelFn for the signature.
//
// Values. A scalar or vector expression is an LLVM value of its type; f16, bf16 and smaller floats are computed in f32
// and rounded where they are stored or cast; bool is i1, in memory a byte; i4, u4, i2 and u2 are bytes. Every buffer of the kernel has an
// alias scope of its own, so that LLVM knows what loop IR promises: buffers are disjoint. Parallel loops
// become functions of their own, called through the host.
//
// GPUs (emit_launch.cpp): each launch becomes an entry function; its parameters are a pointer for each buffer
// of the kernel, its symbols and the iteration of the loop around it. Loads and stores must be aligned, so
// each vector access states the alignment that its index proves (buffers start at kDeviceAlignment). Index
// arithmetic that provably fits is done in 32 bits, which GPUs have units for. The math functions are those
// of CPUs: nothing of libdevice is needed, and the emulated device computes the same numbers.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "host/codegen/access_reports.h"
#include "host/codegen/buffer_elements.h"
#include "host/codegen/buffers.h"
#include "host/codegen/conversions.h"
#include "host/codegen/cpu_family.h"
#include "host/codegen/expressions.h"
#include "host/codegen/float_arithmetic.h"
#include "host/codegen/function_scope.h"
#include "host/codegen/index_range.h"
#include "host/codegen/index_signs.h"
#include "host/codegen/integer_arithmetic.h"
#include "host/codegen/loads.h"
#include "host/codegen/math.h"
#include "host/codegen/math_calls.h"
#include "host/codegen/multiply_adds.h"
#include "host/codegen/narrow_indices.h"
#include "host/codegen/target.h"
#include "host/codegen/value_types.h"
#include "host/codegen/vector_lanes.h"
#include "host/loops/stmt.h"

namespace gantry {

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const LoopKernel& kernel, const Target& target);
  /// Adds the kernel's function to the module. Errors: internal errors that name the kernel.
  void emit();

 private:
  // --- statements (emit_stmt.cpp)
  void emit_stmt(const Stmt& s);
  void emit_for(const ForNode& loop);
  /// `prologue` emits what each iteration begins with.
  void emit_serial_loop(llvm::Value* low, llvm::Value* end, const Expr& var, const Stmt& body,
                        const std::function<void()>& prologue = {});
  void emit_parallel_loop(const ForNode& loop);
  llvm::Value* host_member(size_t offset);
  llvm::Value* call_pool(const ForNode& loop, llvm::Function* body, llvm::Value* closure, llvm::Value* count);
  void emit_if(const IfNode& node);
  void emit_allocate(const AllocateNode& node);
  void emit_thread_memory(const AllocateNode& node);
  void emit_once(const OnceNode& node);
  llvm::Value* request_thread_memory(int64_t bytes);
  void emit_let(const LetStmtNode& node);
  void emit_prefetch(const PrefetchNode& node);
  void emit_transpose(const TransposeNode& node);
  void bind_arguments(llvm::Value* buffers, llvm::Value* dims);

  // --- instructions of a target's own (target_emitter.h)
  friend class TargetEmitter;
  void emit_tile(const TileNode& node);

  // --- GPU launches (emit_launch.cpp)
  void emit_launches(const Stmt& s, const ForNode* loop);
  void emit_launch(const LaunchNode& launch, const ForNode* loop);
  llvm::Function* make_entry(const LaunchNode& launch, const ForNode* loop);
  void bind_index(const Expr& var, llvm::Intrinsic::ID special_register, int64_t limit);
  void emit_device_loop(const ForNode& loop);
  void emit_shared(const AllocateNode& node);
  void emit_barrier();
  void emit_shuffle(const ShuffleNode& node);
  llvm::Value* shuffle_bits(llvm::Value* value, int lane_mask);
  void emit_mma(const MmaNode& node);
  llvm::Value* load_fragment(const Buffer& buffer, llvm::Value* index, int64_t offset, llvm::Type* type);

  struct Scope : FunctionScope {
    std::map<int, llvm::Value*> tile_registers;  ///< those that are vector registers: variables of f32
    int first_weight_tile = 0;                   ///< those from here on hold weights
    int64_t stack_bytes = 0;
    llvm::Value* thread_memory = nullptr;  ///< of the outermost kThread buffer and those inside it
    int64_t thread_bytes = 0;              ///< of it in use
    bool in_parallel_body = false;
    llvm::Value* once = nullptr;  ///< in a parallel loop: the thread is in its first iteration
  };
  /// A function of a parallel loop's iterations [begin, end); its closure holds all of the present scope's
  /// values.
  llvm::Value* emit_is_first_range();
  llvm::Function* outline(const ForNode& loop, llvm::Value* low, llvm::StructType*& closure_type,
                          std::vector<llvm::Value*>& captured);

  // --- memory (emit_memory.cpp)
  void emit_store(const StoreNode& node);

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const LoopKernel& kernel_;
  const Target& target_;
  bool gpu_;
  CpuInstructions instructions_;
  llvm::IRBuilder<> b_;
  MathBuilder math_;
  Conversions conversions_;
  IndexSigns signs_;
  IntegerArithmetic integers_;
  FloatArithmetic floats_;
  Scope scope_;
  IndexRanges ranges_;  ///< GPU only
  Buffers buffers_;
  AccessReports reports_;
  BufferElements elements_;
  // Parts of expressions, and what asks them (their constructors only take note of one another):
  MultiplyAdds multiply_adds_;
  MathCalls calls_;
  VectorLanes lanes_;
  Loads loads_;
  NarrowIndices narrow_;  ///< GPU only
  Expressions expressions_;
  const TileInstruction* tile_instruction_ = nullptr;  ///< what tile registers were configured for
  int launch_count_ = 0;
};

}  // namespace gantry
