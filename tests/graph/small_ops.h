// A few ops for tests of the text form, without the op layer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/graph/graph.h"
#include "host/support/error.h"

namespace gantry {

// The graph layer only holds pointers to op declarations; tests of it bring their own.
struct SmallOp {
  std::string name;
  std::function<std::shared_ptr<Attrs>()> attrs;
  std::function<std::vector<TensorType>(const Node&, Function&)> infer;
};

class SmallOpTable : public OpTable {
 public:
  explicit SmallOpTable(std::vector<SmallOp> ops) {
    for (SmallOp& op : ops) ops_.push_back(std::make_unique<SmallOp>(std::move(op)));
  }
  std::string_view op_name(const OpDef* op) const override { return small(op).name; }
  const OpDef* find(std::string_view name) const override {
    for (const auto& op : ops_) {
      if (op->name == name) return reinterpret_cast<const OpDef*>(op.get());
    }
    return nullptr;
  }
  std::shared_ptr<Attrs> default_attrs(const OpDef* op) const override {
    return small(op).attrs ? small(op).attrs() : std::make_shared<NoAttrs>();
  }
  std::vector<TensorType> infer(const Node& node, Function& function) const override {
    return small(node.op).infer(node, function);
  }

 private:
  static const SmallOp& small(const OpDef* op) { return *reinterpret_cast<const SmallOp*>(op); }
  std::vector<std::unique_ptr<SmallOp>> ops_;
};

}  // namespace gantry
