// What the threads of a GPU's warp do together: shuffles, matrix instructions. Defined in the GPUs' folder of
// host/targets.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <string>

#include "host/codegen/buffer_elements.h"
#include "host/codegen/buffers.h"
#include "host/codegen/conversions.h"
#include "host/codegen/expressions.h"
#include "host/loops/stmt.h"

namespace gantry {

class WarpStatements {
 public:
  /// `kernel`: the name, for errors.
  WarpStatements(llvm::IRBuilder<>& builder, Expressions& expressions, Conversions& conversions,
                 const Buffers& buffers, BufferElements& elements, const std::string& kernel);

  void shuffle(const ShuffleNode& node);
  void mma(const MmaNode& node);

 private:
  /// The lane's 32 bits.
  llvm::Value* shuffle_bits(llvm::Value* value, int lane_mask);
  llvm::Value* load_fragment(const Buffer& buffer, llvm::Value* index, int64_t offset, llvm::Type* type);

  llvm::IRBuilder<>& b_;
  Expressions& expressions_;
  Conversions& conversions_;
  const Buffers& buffers_;
  BufferElements& elements_;
  const std::string& kernel_;
};

}  // namespace gantry
