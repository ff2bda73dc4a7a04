#include "tests/conformance/backend.h"
#include "tests/support/compiled_model.h"

namespace gantry::conformance {

std::vector<ConstantPtr> CompiledBackend::run(const Graph& graph, const std::vector<ConstantPtr>& inputs) {
  testing::LocalModel model(testing::compile_to_bytes(graph, {target_, opt_level_, 1}), 1,
                            testing::device_for(target_));
  return model.run(inputs);
}

BoardBackend::BoardBackend(std::string target)
    : target_(std::move(target)), board_(std::make_unique<testing::EmulatedBoard>()) {}

BoardBackend::~BoardBackend() = default;

std::vector<ConstantPtr> BoardBackend::run(const Graph& graph, const std::vector<ConstantPtr>& inputs) {
  return testing::run_on_board(board_->client(), testing::compile_to_bytes(graph, {target_, 3, 1}), inputs,
                               1);
}

}  // namespace gantry::conformance
