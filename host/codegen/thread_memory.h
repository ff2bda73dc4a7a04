// Buffers of scope kThread on CPUs: memory that the host keeps for the calling thread.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <map>

#include "host/codegen/expressions.h"
#include "host/codegen/function_scope.h"
#include "host/codegen/host_table.h"
#include "host/loops/stmt.h"

namespace gantry {

class ThreadMemory {
 public:
  ThreadMemory(llvm::IRBuilder<>& builder, FunctionScope& scope, Expressions& expressions, HostTable& host)
      : b_(builder), scope_(scope), expressions_(expressions), host_(host) {}

  /// Before and after the body of an allocation. The outermost such buffer of a function asks once for all
  /// inside it.
  void open(const AllocateNode& node);
  void close(const AllocateNode& node);

 private:
  /// Asks the host; the function ends if there is none.
  llvm::Value* request(int64_t bytes);

  /// Of a function that is between open() and close().
  struct Memory {
    llvm::Value* address = nullptr;
    int64_t used = 0;  ///< bytes
    int buffers = 0;
  };

  llvm::IRBuilder<>& b_;
  FunctionScope& scope_;
  Expressions& expressions_;
  HostTable& host_;
  std::map<const llvm::Function*, Memory> memory_;
};

}  // namespace gantry
