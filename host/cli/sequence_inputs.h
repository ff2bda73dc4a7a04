// Inputs that are sequences of which a module does not know the tensors. The module has two inputs for each,
// x[] and x[].dims (host/graph/late_values.h); options name its tensors x[0], x[1], ….
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/inputs.h"
#include "host/cli/tensor_files.h"

namespace gantry::cli {

/// Whether it is such a tensor: "x[1]".
bool is_tensor_of_sequence(const std::vector<rpc::TensorDescription>& model, const std::string& name);

/// The tensors that the options speak of: of each such input x as many as the largest number i makes, of
/// which an option (--input, --shape) or an archive that is given says x[i]. In the order of the inputs.
std::vector<rpc::TensorDescription> tensors_of_sequences(const std::vector<rpc::TensorDescription>& model,
                                                         const InputChoice& choice);

/// Puts the sequences together in `given`, which is parallel to the model's inputs. `tensors`: as above,
/// `data` parallel to them; those without are made up where there is a seed. User errors: a tensor without
/// data, of which --shape says no shape; a sequence that is given both so and as x[]; made-up data for one of
/// which nothing says the tensors.
void join_sequences(const std::vector<rpc::TensorDescription>& model, const InputChoice& choice,
                    const std::vector<rpc::TensorDescription>& tensors,
                    std::vector<std::optional<FileTensor>> data,
                    std::vector<std::optional<FileTensor>>& given);

}  // namespace gantry::cli
