// What a kernel's loop nest is made of, for tests to ask of its nodes rather than of its text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/loops/stmt.h"

namespace gantry::test {

/// Elements of a buffer that one load or store takes `stride` apart from each other, one a lane.
struct VectorAccess {
  std::string buffer;
  std::optional<int64_t> stride;  ///< nothing where it is not known before the kernel runs
  int lanes = 0;
};

/// Every vector of the kernel's loads and stores.
inline std::vector<VectorAccess> vector_accesses(const LoopKernel& kernel) {
  std::vector<VectorAccess> found;
  const auto add = [&](const std::string& buffer, const Expr& index) {
    walk(index, [&](const Expr& e) {
      const auto* ramp = e.as<RampNode>();
      if (ramp == nullptr) return;
      const auto* stride = ramp->stride.as<IntImmNode>();
      found.push_back({buffer, stride ? std::optional(stride->value) : std::nullopt, e.type().lanes});
    });
  };
  walk(
      kernel.body,
      [&](const Stmt& s) {
        if (const auto* store = s.as<StoreNode>()) add(store->buffer->name, store->index);
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<LoadNode>()) add(load->buffer->name, load->index);
      });
  return found;
}

/// Whether vectors of eight elements `stride` apart are read or written, of the buffer where one is named.
inline bool has_vectors_of_eight(const LoopKernel& kernel, int64_t stride, const std::string& buffer = "") {
  return std::ranges::any_of(vector_accesses(kernel), [&](const VectorAccess& access) {
    return access.lanes == 8 && access.stride == stride && (buffer.empty() || access.buffer == buffer);
  });
}

inline bool has(const LoopKernel& kernel, StmtKind kind) {
  bool found = false;
  walk(kernel.body, [&](const Stmt& s) { found = found || s->kind == kind; }, nullptr);
  return found;
}

/// The shapes of the kernel's tensor-core instructions.
inline std::set<MmaShape> mma_shapes(const LoopKernel& kernel) {
  std::set<MmaShape> found;
  walk(
      kernel.body,
      [&](const Stmt& s) {
        if (const auto* mma = s.as<MmaNode>()) found.insert(mma->shape);
      },
      nullptr);
  return found;
}

}  // namespace gantry::test
