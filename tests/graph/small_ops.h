// A few ops for tests of the text form, without the op layer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/graph/graph.h"
#include "host/support/error.h"

namespace gantry {

/// An op's declaration as far as the graph layer's tests need one.
struct SmallOp : OpBase {
  SmallOp(const OpHandle& op, std::function<std::vector<TensorType>(const Node&, Function&)> rule)
      : OpBase{&op, std::string(op.name())}, infer(std::move(rule)) {}
  std::function<std::vector<TensorType>(const Node&, Function&)> infer;
};

class SmallOpTable : public OpTable {
 public:
  explicit SmallOpTable(std::vector<SmallOp> ops) {
    for (SmallOp& op : ops) ops_.push_back(std::make_unique<SmallOp>(std::move(op)));
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& op : ops_) names.push_back(op->name);
    return names;
  }
  const OpBase* find(std::string_view name) const override {
    for (const auto& op : ops_) {
      if (op->name == name) return op.get();
    }
    return nullptr;
  }
  std::vector<TensorType> infer(const Node& node, Function& function) const override {
    return static_cast<const SmallOp&>(*node.op).infer(node, function);
  }

 private:
  std::vector<std::unique_ptr<SmallOp>> ops_;
};

}  // namespace gantry
