// Statements of loop IR: control flow, and which part emits each of the others.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "host/loops/index_signs.h"
#include "host/loops/stmt.h"
#include "host/machine/target.h"

namespace gantry {

class AccessReports;
class BlockStatements;
class DeviceLoops;
class Expressions;
class IndexRanges;
class MemoryStatements;
class ParallelLoops;
class SerialLoops;
class StackBuffers;
class ThreadMemory;
class TileStatements;
class WarpStatements;
struct FunctionScope;

class Statements {
 public:
  /// What emits statements of one kind.
  struct Kinds {
    MemoryStatements& memory;
    TileStatements& tiles;
    StackBuffers& stack;
    // On CPUs:
    SerialLoops& serial;
    ParallelLoops& parallel;
    ThreadMemory& thread_memory;
    AccessReports& reports;
    // On GPUs:
    DeviceLoops& device_loops;
    BlockStatements& blocks;
    WarpStatements& warps;
  };
  /// `ranges`: what is known of indices, on GPUs; null: the code is a CPU's. `kernel`, `target`: for errors.
  Statements(llvm::IRBuilder<>& builder, FunctionScope& scope, Expressions& expressions, IndexSigns& signs,
             IndexRanges* ranges, const Kinds& kinds, const LoopKernel& kernel, const Target& target);

  /// Nothing, of none. An internal error where the target has no such statement.
  void emit(const Stmt& s);

 private:
  void loop(const ForNode& node);
  void serial_loop(const ForNode& node);
  void branch(const IfNode& node);
  void allocate(const AllocateNode& node);
  void once(const OnceNode& node);
  void let(const LetStmtNode& node);
  bool on_gpu() const { return ranges_ != nullptr; }

  llvm::IRBuilder<>& b_;
  FunctionScope& scope_;
  Expressions& expressions_;
  IndexSigns& signs_;
  IndexRanges* ranges_;
  Kinds kinds_;
  const LoopKernel& kernel_;
  const Target& target_;
};

}  // namespace gantry
