// Loops that the running model counts or ends: what Loop and Scan become.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "host/onnx/importer.h"
#include "host/onnx/node_import.h"

namespace gantry {

/// What a body takes in a turn.
struct TurnValues {
  Value* number = nullptr;     ///< of the turn, from 0 on: i64
  Value* condition = nullptr;  ///< bool
  std::vector<Binding> states;
  std::vector<Value*> others;
};

struct LoopParts {
  Value* count = nullptr;      ///< of turns, at most: i64; null: no bound
  Value* condition = nullptr;  ///< whether it begins: bool; null: it does
  std::vector<Binding> states;
  std::vector<Value*> others;  ///< that every turn reads
  /// How many turns there are unless the condition ends them early; empty: nobody knows before.
  std::optional<Dim> turns;
  /// What the inputs of the body's graph stand for; may add nodes.
  std::function<std::vector<Binding>(const TurnValues&)> arguments;
  /// What the outputs of the body's graph are to the turn: the condition, states, and what is gathered. May add nodes.
  /// Empty: they are that themselves.
  std::function<std::vector<Binding>(const TurnValues&, std::vector<Binding> outputs)> results;
  /// The first of these is the condition of the next turn; else no turn ends the loop.
  bool gives_condition = true;
};

/// The states after the last turn, then what all turns gave, along a new first axis. Dimensions of states that a turn
/// changes are symbols in the body, and sequences that it changes are late ones: it is converted again until those are
/// found.
std::vector<Binding> add_loop(NodeImport& n, const onnx::GraphProto& body, const LoopParts& parts);

}  // namespace gantry
