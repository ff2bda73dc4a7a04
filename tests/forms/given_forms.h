// Forms for tests: a node by itself to ask about, and forms of which a test chooses.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/forms/choose.h"
#include "host/graph/graph.h"
#include "host/machine/target.h"
#include "host/ops/builder.h"
#include "host/ops/image.h"

namespace gantry {

/// The target's forms, but for which of them is taken.
class GivenForms : public FormSet {
 public:
  using Choose = std::function<Decision(const FormQuestion&, const FormSet&)>;
  /// `choose` is told of the target's.
  GivenForms(const Target& target, Choose choose) : forms_(forms::make_forms(target)), choose_(std::move(choose)) {}

  bool has_choice(const FormQuestion& question) const override { return forms_->has_choice(question); }
  /// What is chosen where data may be as the model has them and where they are channels-last.
  std::vector<FormOption> options(const FormQuestion& question) const override {
    std::vector<FormOption> options;
    for (const bool plain_data : {true, false}) {
      const FormQuestion asked{.node = question.node, .weight = question.weight, .plain_data = plain_data};
      const Decision decision = choose_(asked, *forms_);
      if (options.empty() || options.front().decision != decision)
        options.push_back({decision, 0, orders(question, decision)});
      if (question.node.attrs_if<ImageAttrs>() == nullptr) break;
    }
    return options;
  }
  NodeOrders orders(const FormQuestion& question, const Decision& decision) const override {
    return forms_->orders(question, decision);
  }
  double conversion(const TensorType& type) const override { return forms_->conversion(type); }
  std::vector<Candidate> candidates(const FormQuestion& question) const override { return forms_->candidates(question); }
  Misfit misfit(const FormQuestion& question, const Decision& decision) const override {
    return forms_->misfit(question, decision);
  }
  FormedNode apply(const FormQuestion& question, const Decision& decision, WeightPacker& packer) const override {
    return forms_->apply(question, decision, packer);
  }

 private:
  std::unique_ptr<FormSet> forms_;
  Choose choose_;
};

/// A node with data and a constant weight of ones.
template <typename AttrsType>
class LoneNode {
 public:
  LoneNode(const Op<AttrsType>& op, const AttrsType& attrs, TensorType data, const TensorType& weight) {
    const std::vector<float> ones(static_cast<size_t>(element_count(weight.shape).value()), 1.0F);
    Value* x = function_.add_parameter("x", std::move(data));
    Value* w = function_.add_constant("w", make_constant(weight, ones.data()));
    node_ = Builder(function_).node(op, {x, w}, attrs);
  }
  const Node& node() const { return *node_; }
  FormQuestion question(bool plain_data = false) const {
    return {.node = *node_, .weight = node_->inputs[1], .plain_data = plain_data};
  }

 private:
  Function function_{"main"};
  Node* node_ = nullptr;
};

}  // namespace gantry
