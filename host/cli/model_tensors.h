// A model's inputs and outputs as options name them.
#pragma once

#include <string>
#include <vector>

#include "host/cli/tensor_text.h"

namespace gantry::cli {

std::vector<std::string> names_of(const std::vector<rpc::TensorDescription>& tensors);

/// Index of the tensor that an option names; the only one where `name` is empty. `kind` is "input" or
/// "output", `option` what was typed ("--input x=a.npy"); user errors quote it and list the names,
/// with `advice` behind them for a name that no tensor has.
size_t find_tensor(const std::vector<rpc::TensorDescription>& tensors, const std::string& name,
                   const std::string& kind, const std::string& option, const std::string& advice = {});

/// Whether a shape is the wanted one, whose symbolic dimensions (-1) take any; those that are open yet (-1)
/// fit any.
bool shape_fits(const std::vector<int64_t>& wanted, const std::vector<int64_t>& given);

/// User error unless a tensor of that type and shape can be the input; it calls the data `source`.
void check_input(const rpc::TensorDescription& wanted, const rpc::ElementType& type,
                 const std::vector<int64_t>& shape, const std::string& source);

}  // namespace gantry::cli
