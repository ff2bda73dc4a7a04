// Forms as alter_layout sees them: who decides how a node is computed, and what a decision makes of the node. The forms
// themselves are in host/forms.
#pragma once

#include <any>
#include <cstdint>
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
  /// Of a node of images: the data may be had as the model has them, and not channels-last only.
  bool plain_data = true;
  /// A dilated convolution may be computed as its phases.
  bool may_split = true;
  /// What forms have found out while they were asked, for when they are applied.
  mutable std::any found = {};
  /// What is kept for who asks what the node's schedule rule takes, of many schedules one after the other.
  mutable std::any asked = {};
};

/// Why a decision does not fit, to stand behind the name of the node; none where it does.
using Misfit = std::optional<std::string>;

/// How an image lies.
enum class ImageOrder : uint8_t {
  kModel,         ///< (N, C, spatial…), as the model has it
  kChannelsLast,  ///< (N, spatial…, C)
};

/// How the images lie that a node reads and writes.
struct NodeOrders {
  ImageOrder data = ImageOrder::kModel, result = ImageOrder::kModel;
  /// Its kernel reads each element of the data about once into a tile of its own (OpDef::stages_input): data in
  /// another order are converted on the way, at no cost.
  bool stages_data = false;

  bool operator==(const NodeOrders&) const = default;
};

/// A decision that a node may get.
struct FormOption {
  Decision decision;
  /// Predicted, in the unit of FormSet::conversion(), as far as it is compared with that of others: what is predicted
  /// less well counts for more.
  double cost = 0;
  NodeOrders orders = {};
};

/// What a form makes of a node.
struct FormedNode {
  std::shared_ptr<const Attrs> attrs;  ///< null: the node stays as it is
  std::vector<Value*> weights = {};    ///< in place of input 1; none: inputs stay as they are
  std::optional<DilationPhases> phases = {};  ///< it is of these
};

class FormSet {
 public:
  virtual ~FormSet() = default;
  /// Whether there is more than one form for the node here.
  virtual bool has_choice(const FormQuestion& question) const = 0;
  /// Of such a node: one at least. Of those that read and write images in the same orders there is the one that is to
  /// be taken of them, and others only where they differ in stages_data.
  virtual std::vector<FormOption> options(const FormQuestion& question) const = 0;
  /// Of a decision that fits.
  virtual NodeOrders orders(const FormQuestion& question, const Decision& decision) const = 0;
  /// Predicted of a kernel that writes a value of that type, (N, C, spatial…), in the other order: cycles of one core of
  /// a CPU, milliseconds of a GPU.
  virtual double conversion(const TensorType& type) const = 0;
  /// What is looked at; Candidate::why of what is not to be taken, whatever is predicted of it.
  virtual std::vector<Candidate> candidates(const FormQuestion& question) const = 0;
  /// Of a decision that somebody else has made.
  virtual Misfit misfit(const FormQuestion& question, const Decision& decision) const = 0;
  /// By a decision that fits. `packer` adds the nodes that pack weights.
  virtual FormedNode apply(const FormQuestion& question, const Decision& decision, WeightPacker& packer) const = 0;

  /// For a node by itself, whose result is wanted as the data are there.
  Decision choose(const FormQuestion& question) const;
};

}  // namespace gantry
