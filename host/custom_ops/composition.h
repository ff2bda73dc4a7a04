// Compositions: graph text in the place of an op.
#pragma once

#include <vector>

#include "host/custom_ops/custom_ops.h"

namespace gantry {

/// An input that a node has, as a composition sees it.
struct CompositionInput {
  std::string name;  ///< of the signature
  TensorType type;
};

/// The text with values put in: $NAME of an attribute, $NAME.type, .dtype, .shape, .rank and .last (the last
/// axis) of an input. A user
/// error for another name, or an attribute without a value.
std::string fill_in(std::string_view text, const std::vector<CompositionInput>& inputs,
                    const std::vector<CustomAttribute>& attributes);

/// The graph that the op's composition for these inputs is: its parameters have their names and types,
/// symbols that it binds are named by `new_symbol`. Names of symbols in its text are its own, whatever the
/// model calls its. Parameters' sizes that must be equal to inputs' and are not known to be are its
/// constraints. `passes` are those that its text may say it has been through. User errors name the file.
Graph compose(const CustomOp& op, const std::vector<CompositionInput>& inputs,
              const std::vector<CustomAttribute>& attributes, const std::vector<std::string>& passes,
              const std::function<std::string(const std::string&)>& new_symbol);

}  // namespace gantry
