// Loads of loop IR: one element, adjacent ones in any form that is one access, or lane by lane.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <optional>

#include "host/codegen/memory_parts.h"

namespace gantry {

class Loads {
 public:
  explicit Loads(const MemoryParts& parts) : b_(parts.builder), parts_(parts) {}

  llvm::Value* emit(const LoadNode& node);

 private:
  // In the form of memory:
  llvm::Value* scalar(const LoadNode& node);
  llvm::Value* vector(const LoadNode& node);
  /// Lanes that are adjacent, from the first to the last or the other way round.
  llvm::Value* adjacent(const LoadNode& node, const Affine& affine);
  llvm::Value* masked(const LoadNode& node, llvm::Value* first);
  /// Of a GPU, all or none.
  llvm::Value* guarded(const LoadNode& node, llvm::Value* first);
  /// All lanes' element is the same, which is loaded if any lane is on.
  llvm::Value* repeated(const LoadNode& node, llvm::Value* index);
  llvm::Value* by_lanes(const LoadNode& node, const std::optional<Affine>& affine);
  /// Two loads that end at the last element wanted, so that nothing beyond it is read.
  llvm::Value* every_second(const LoadNode& node, llvm::Value* first);
  llvm::Type* type_of(const LoadNode& node) const;

  llvm::IRBuilder<>& b_;
  const MemoryParts& parts_;
};

}  // namespace gantry
