#include "tests/conformance/backend.h"
#include "tests/support/interpreted.h"

namespace gantry::conformance {

std::vector<ConstantPtr> InterpreterBackend::run(const Graph& graph, const std::vector<ConstantPtr>& inputs) {
  return testing::interpret_function(graph.main, inputs);
}

}  // namespace gantry::conformance
