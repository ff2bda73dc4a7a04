// Copies of statements that passes make: of a loop's body for some of its iterations, for what is left over.
#pragma once

#include <string>
#include <unordered_map>

#include "host/loops/stmt.h"

namespace gantry {

/// Gives what is copied local buffers of its own: every statement and expression that names one of them names
/// its copy.
class LocalCopier : public StmtMutator {
 protected:
  /// What a copy's name has behind the buffer's; asked once for each.
  virtual std::string suffix() = 0;

  Stmt mutate_allocate(const AllocateNode* node, const Stmt& self) override;
  Stmt mutate_store(const StoreNode* node, const Stmt& self) override;
  Expr mutate_load(const LoadNode* node, const Expr& self) override;
  Stmt mutate_shuffle(const ShuffleNode* node, const Stmt& self) override;
  Stmt mutate_mma(const MmaNode* node, const Stmt& self) override;
  Stmt mutate_tile(const TileNode* node, const Stmt& self) override;
  Stmt mutate_prefetch(const PrefetchNode* node, const Stmt& self) override;
  Stmt mutate_transpose(const TransposeNode* node, const Stmt& self) override;

 private:
  bool has_copy(const Buffer& buffer) const { return copies_.contains(buffer.get()); }
  /// The buffer itself where it has none.
  const Buffer& copy_of(const Buffer& buffer) const;

  std::unordered_map<const BufferNode*, Buffer> copies_;
};

}  // namespace gantry
