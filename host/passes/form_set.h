// Forms as alter_layout sees them: who decides how a node is computed, and what a decision makes of the node. The forms
// themselves are in host/forms.
#pragma once

#include <any>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/passes/dilation_phases.h"
#include "host/passes/node_decision.h"
#include "host/passes/weight_packing.h"

namespace gantry {

/// A node, and what is there of its operands.
struct FormQuestion {
  const Node& node;
  /// Input 1 in the model's order of axes; constant or not. Null where the node has none.
  Value* weight = nullptr;
  /// Of a node of images: the data are there as the model has them, and not channels-last.
  bool plain_data = true;
  /// A dilated convolution may be computed as its phases.
  bool may_split = true;
  /// What forms have found out while they were asked, for when they are applied.
  mutable std::any found = {};
};

/// Why a decision does not fit, to stand behind the name of the node; none where it does.
using Misfit = std::optional<std::string>;

/// What a form makes of a node.
struct FormedNode {
  std::shared_ptr<const Attrs> attrs;  ///< null: the node stays as it is
  std::vector<Value*> weights = {};    ///< in place of input 1; none: inputs stay as they are
  /// Images that it reads and writes are channels-last.
  bool data_last = false, result_last = false;
  std::optional<DilationPhases> phases = {};  ///< it is of these
};

class FormSet {
 public:
  virtual ~FormSet() = default;
  /// Whether there is more than one form for the node here.
  virtual bool has_choice(const FormQuestion& question) const = 0;
  /// Of such a node.
  virtual Decision choose(const FormQuestion& question) const = 0;
  /// What is looked at, and why it is not taken where `taken` is.
  virtual std::vector<Candidate> candidates(const FormQuestion& question, const Decision& taken) const = 0;
  /// Of a decision that somebody else has made.
  virtual Misfit misfit(const FormQuestion& question, const Decision& decision) const = 0;
  /// By a decision that fits. `packer` adds the nodes that pack weights.
  virtual FormedNode apply(const FormQuestion& question, const Decision& decision, WeightPacker& packer) const = 0;
};

}  // namespace gantry
