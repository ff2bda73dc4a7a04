#include "host/tune/cost_model.h"

namespace gantry::tune {

std::unique_ptr<CostModel> make_learned_model() {
  return nullptr;
}

}  // namespace gantry::tune
