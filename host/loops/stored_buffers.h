// Which buffers a statement changes, for passes that know something of what is read from them.
#pragma once

#include <set>

#include "host/loops/stmt.h"

namespace gantry {

/// That the statement stores to by itself, not by one inside of it; null: none.
inline const BufferNode* stored_buffer(const Stmt& s) {
  if (const auto* node = s.as<StoreNode>()) return node->buffer.get();
  if (const auto* node = s.as<ShuffleNode>()) return node->target.get();
  if (const auto* node = s.as<MmaNode>()) return node->d.get();
  if (const auto* node = s.as<TransposeNode>()) return node->rows.get();
  const auto* tile = s.as<TileNode>();
  return tile && tile->op == TileNode::Op::kStore ? tile->buffer.get() : nullptr;
}

/// Whether `s`, which may be null, stores to a buffer that `e` reads: after that `e` may be another value.
inline bool may_change(const Stmt& s, const Expr& e) {
  std::set<const BufferNode*> read;
  walk(e, [&](const Expr& part) {
    if (const auto* load = part.as<LoadNode>()) read.insert(load->buffer.get());
  });
  if (read.empty()) return false;
  bool found = false;
  walk(s, [&](const Stmt& inner) { found = found || read.count(stored_buffer(inner)) > 0; }, {});
  return found;
}

}  // namespace gantry
