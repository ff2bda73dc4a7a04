// Parallel loops: functions of their own that the host calls for ranges of the iterations. Where there is no
// host, or one iteration, the function is called for all.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <string>
#include <vector>

#include "host/codegen/expressions.h"
#include "host/codegen/function_scope.h"
#include "host/codegen/host_table.h"
#include "host/codegen/serial_loops.h"
#include "host/loops/stmt.h"

namespace gantry {

class ParallelLoops {
 public:
  /// `kernel`: the name.
  ParallelLoops(llvm::IRBuilder<>& builder, llvm::Module& module, FunctionScope& scope,
                Expressions& expressions, HostTable& host, SerialLoops& serial, const std::string& kernel);

  /// `body` emits an iteration. Of nested loops only the outermost may come here.
  void emit(const ForNode& loop, const std::function<void()>& body);
  /// In an iteration.
  bool inside() const { return inside_; }
  /// Whether the thread is in the first iteration that it does of the loop; null where there is no such loop
  /// or none of its statements asks.
  llvm::Value* is_first_iteration() const { return is_first_iteration_; }

 private:
  /// What the iterations see of the function around them: all values of its scope.
  struct Closure {
    llvm::StructType* type;
    std::vector<llvm::Value*> values;
  };
  Closure capture(llvm::Value* low) const;
  /// Goes on in the function of the iterations: the scope is its own, with the values of the closure. Returns
  /// `low` there.
  llvm::Value* enter(llvm::Function* function, const Closure& closure);
  /// A function of the iterations [begin, end), as numbers from 0.
  llvm::Function* outline(const ForNode& loop, const Closure& closure, const std::function<void()>& body);
  /// Does the thread begin with this range? Where the host does not say, every range is taken for its first.
  llvm::Value* is_first_range();
  /// Has the pool run the iterations of a loop; its result.
  llvm::Value* call_pool(const ForNode& loop, llvm::Function* function, llvm::Value* closure,
                         llvm::Value* count);

  llvm::IRBuilder<>& b_;
  llvm::Module& module_;
  FunctionScope& scope_;
  Expressions& expressions_;
  HostTable& host_;
  SerialLoops& serial_;
  const std::string& kernel_;
  bool inside_ = false;
  llvm::Value* is_first_iteration_ = nullptr;
};

}  // namespace gantry
