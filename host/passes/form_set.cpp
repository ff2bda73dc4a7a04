#include "host/passes/form_set.h"

#include <algorithm>

namespace gantry {

Decision FormSet::choose(const FormQuestion& question) const {
  std::vector<FormOption> options = this->options(question);
  if (question.plain_data) {
    for (FormOption& option : options) {
      if (option.orders.data == ImageOrder::kChannelsLast && !option.orders.stages_data)
        option.cost += conversion(question.node.inputs[0]->type);
      if (option.orders.result == ImageOrder::kChannelsLast) option.cost += conversion(question.node.result()->type);
    }
  }
  return std::ranges::min_element(options, {}, &FormOption::cost)->decision;
}

}  // namespace gantry
