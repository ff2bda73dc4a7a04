// Which products of a network have weights of three bf16 parts where two would do for each of them alone:
// errors add up (host/forms/network_error.h).
#pragma once

#include <set>
#include <string>

#include "host/forms/form.h"
#include "host/ops/conv.h"

namespace gantry::forms {

/// Products of one kind are alike.
std::string kind_of(const ConvAttrs& attrs, const TensorType& data, const TensorType& result);
std::string kind_of(const TensorType& data, int64_t units);

/// Kinds of the network whose weights get a third part, on tile units that are asked for two.
std::set<std::string> kinds_for_exact_weights(const Function& network, const FormContext& context);
/// Of a product that has `parts` by itself.
int64_t parts_in_network(int64_t parts, const std::string& kind, const FormContext& context);
/// Why so many parts, two or three, are not what it has.
std::string why_not_in_network(int64_t parts);

}  // namespace gantry::forms
