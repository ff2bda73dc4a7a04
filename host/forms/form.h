// A form is a way of computing an op: a value, in a file of its own, that says what knobs it has, what it proposes for a
// node on a machine, what is predicted of that, when a decision does not fit, and what one makes of the node. Their list
// is host/forms/forms.def.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/target.h"
#include "host/passes/form_set.h"

namespace gantry {
class SpillFile;  // host/support/spill_file.h
}

namespace gantry::forms {

/// What decisions are made for.
struct FormContext {
  Target target;
  /// Packed weights are not larger than the model's, but for a little padding.
  bool small_weights = false;
  /// Kinds of products (host/forms/exact_weights.h) whose weights have three bf16 parts where two would do for them
  /// alone.
  std::set<std::string> exact_kinds = {};
  /// Where large weights may lie that forms make; null: in memory.
  SpillFile* spill = nullptr;
};

/// A decision for a node.
struct FormCase {
  const FormQuestion& question;
  const Decision& decision;
  const FormContext& context;
};

/// Multiples of `step` from `least` to `most`.
struct KnobRange {
  int64_t least = 0, most = 1, step = 1;
};

struct Knob {
  std::string_view name;
  int64_t otherwise;  ///< where it is left out
  std::string_view says;
  /// Of its values; null: 0 and 1.
  KnobRange (*range)(const FormCase&) = nullptr;
  /// Of the schedule: where it is left out the rule's model chooses, for the kernel that the node becomes a part of. What
  /// fits in the range but not that kernel is refused by the rule (Form::refused).
  bool of_schedule = false;
  /// Values for who tries some of a long range: what divides the node's extents, say. They need not fit. Null: there
  /// are none to be preferred.
  std::vector<int64_t> (*even)(const FormCase&) = nullptr;
};

/// A decision that a form proposes.
struct Bid {
  Decision decision;
  /// Predicted: cycles of one core of a CPU, milliseconds of a GPU; none where no model looks at it.
  std::optional<double> cycles = {}, ms = {};
  /// What counts where it is compared, if not the cycles.
  std::optional<double> weighed = {};
  /// Expected of its arithmetic beyond what sums in f32 are off by, largest difference by largest result: its product's
  /// (host/forms/product.h) and its algorithm's.
  double error = 0;
  /// Why it is not to be taken; it is there to be seen. Empty: it may be.
  std::string no = {};
  /// It is taken where it is predicted to take less than this share of the others (host/forms/choose.h).
  double promise = 1;
  /// Its products are computed on tile units.
  bool on_tiles = false;
  /// Before all bids of a lower one, whatever is predicted: the form's own model says that it pays, or the user has
  /// asked for its arithmetic.
  int claim = 0;
};

enum class Devices : uint8_t { kAll, kCpus, kGpus };

struct Form {
  std::string_view name;  ///< as decisions have it
  Devices devices = Devices::kAll;
  std::span<const Knob> knobs = {};
  /// Whether the node's op is the form's and it has no form yet.
  bool (*possible)(const FormQuestion&, const FormContext&) = nullptr;
  /// Beside what the ranges of knobs say; null: nothing.
  Misfit (*misfit)(const FormCase&) = nullptr;
  /// Of a decision that fits: why the rule that schedules the node's kernel refuses a knob of the schedule,
  /// as far as the node tells without what joins its kernel. By the predicate that the rule asks itself;
  /// null: there is no such one.
  Misfit (*refused)(const FormCase&) = nullptr;
  /// Where `refused` is null: on these devices the rule alone says what it refuses, to who has the node's
  /// kernel scheduled; on others it refuses none.
  std::optional<Devices> asks_rule = {};
  /// Of a decision that fits and leaves the schedule to the rule: why it is not worth a try for who looks for faster
  /// ones, though somebody may ask for it; null: all are.
  Misfit (*hopeless)(const FormCase&) = nullptr;
  /// In the order in which they are looked at; null: it is only for who asks for it.
  std::vector<Bid> (*bids)(const FormQuestion&, const FormContext&) = nullptr;
  /// Its bids depend on the values of the weights, or on what makes the data, and not on types alone.
  bool looks_beyond_types = false;
  /// How images lie under a decision; null: as the model has them.
  NodeOrders (*orders)(const FormCase&) = nullptr;
  /// By a decision that fits; null: the node stays as it is.
  FormedNode (*apply)(const FormCase&, WeightPacker&) = nullptr;
  /// Of a node that was made by some decision: whether its attributes are those that this one makes. Null: they may be.
  bool (*made)(const Node&, const Decision&) = nullptr;
};

/// A line of the list.
struct ListedForm {
  const Form* form;
  std::string_view ops;   ///< "nn.conv", or several with commas between them
  std::string_view says;  ///< what it is, in a line
  std::string_view file;  ///< in the source tree
};
std::span<const ListedForm> all_forms();
/// Whether there are other forms of the op than its definition.
bool has_forms(const OpBase& op);
/// Whether the decision is one that something is to be made of the node by, and nothing was made of it yet.
bool is_to_be_made(const Node& node, const Decision& decision);
/// Whether what was made of the node so that it is computed in some way (AttrVisitor::choices()) can be that decision's,
/// on whatever machine; of a node of which nothing was made yet, any decision's.
bool is_made_by(const Node& node, const Decision& decision);
/// Of a decision's form and the names of its knobs: that no machine computes the op so.
Misfit unknown_form(const OpBase& op, const Decision& decision);

inline bool is_for(Devices devices, const Target& target) {
  return devices == Devices::kAll || (devices == Devices::kGpus) == target.for_gpu();
}
inline bool is_for(const Form& form, const Target& target) {
  return is_for(form.devices, target);
}

}  // namespace gantry::forms
