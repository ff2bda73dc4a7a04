// What a tuner works on: the distinct kernels of a network that may be computed in more than one way.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/graph/decision.h"
#include "host/passes/network_decision.h"

namespace gantry::tune {

/// A knob of a form, and the values that are tried of it.
struct KnobValues {
  std::string name;
  int64_t otherwise = 0;        ///< where it is left out
  bool of_schedule = false;     ///< where it is left out the schedule's rule chooses
  std::vector<int64_t> values;  ///< rising; not empty
};

struct FormKnobs {
  std::string form;
  std::vector<KnobValues> knobs;  ///< in the order in which decisions have them
};

/// The ways in which a task may be computed.
struct Space {
  std::vector<FormKnobs> forms;
  /// What the forms themselves propose: where a search begins.
  std::vector<Decision> proposed;
  /// Why a decision is none of the space; none where it is one. May be empty: all are.
  std::function<std::optional<std::string>(const Decision&)> misfit;
};

/// Another way in which the images that a task reads and writes may lie.
struct OtherLayout {
  std::string orders;  ///< "images channels-last"
  Decision decision;   ///< that the forms propose for it; one of the space
  Space space;         ///< of decisions by which they lie so
};

/// Nodes that are kept apart, with their numbers among those of the function in which decisions are made.
struct NumberedSeparation {
  Separation edge;
  int64_t maker = 0, reader = 0;

  bool operator==(const NumberedSeparation&) const = default;
};

/// What of a task's kernels may be computed by itself.
struct OtherFusion {
  std::string what;                       ///< "nn.relu apart from nn.conv"
  std::vector<NumberedSeparation> apart;  ///< of each of its nodes
};

/// Nodes of the same work, which one decision is for.
struct Task {
  std::string work;     ///< work_digest() (host/passes/work_digest.h)
  std::string program;  ///< of the work alone (host/records/work_program.h), for records; may be empty
  std::string op;       ///< "nn.conv"
  std::string kernel;   ///< what its kernels compute, for people: "nn.conv[winograd4]+nn.relu"
  std::vector<std::string> nodes;  ///< of the model, as decision files name them; one a node of the graph
  std::vector<int64_t> numbers = {};  ///< of those nodes in the function in which decisions are made
  Decision untuned;                ///< what the compiler takes by itself
  Space space;                     ///< of decisions by which images lie as they do untuned
  std::vector<OtherLayout> layouts = {};
  std::vector<OtherFusion> fusions = {};
};

/// A decision for each task, parallel to the list of tasks, and what is decided for the network.
struct Choices : std::vector<Decision> {
  bool combined = false;  ///< products of the same data are one (host/passes/combine_parallel.h)
  std::vector<Separation> apart = {};

  bool operator==(const Choices&) const = default;
};

/// A decision that is tried for one task.
struct Trial {
  size_t task = 0;
  Decision decision;
};

}  // namespace gantry::tune
