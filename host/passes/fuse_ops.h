// The op of groups made by fuse_ops. The rules of grouping are at fuse_ops() in passes.h.
#pragma once

#include "host/graph/graph.h"
#include "host/ops/op.h"

namespace gantry {

/// `fused`: one body whose parameters are the node's inputs and whose outputs are its results. Constants of
/// one element stand inside the body (dtypes that have no immediates excepted), all others are inputs.
const OpDef* fused_op();
namespace op {
inline constexpr Op<NoAttrs> fused{"fused"};
}  // namespace op

/// An op table with `fused` added, to read text with fused nodes.
class FusedOpTable : public OpTable {
 public:
  explicit FusedOpTable(const OpTable& ops) : ops_(ops) {}
  std::vector<std::string> names() const override;
  const OpBase* find(std::string_view name) const override;
  std::vector<TensorType> infer(const Node& node, Function& function) const override;
  std::vector<std::string> bound_symbols(const Node& node) const override { return ops_.bound_symbols(node); }

 private:
  const OpTable& ops_;
};

}  // namespace gantry
