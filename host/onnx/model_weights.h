// The weights of an ONNX model, wherever they stand in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "host/support/mapped_file.h"

namespace gantry {

struct OnnxMessages;  // host/onnx/import.h

struct WeightCount {
  int64_t tensors = 0;
  int64_t parameters = 0;  ///< elements; of a sparse tensor those that are stored
  int64_t bytes = 0;       ///< as stored, without names and shapes
};

struct ModelWeights {
  WeightCount total;
  std::map<std::string, WeightCount> by_type;  ///< element types as ONNX calls them: "float", "int64"
  /// Equal in type, shape and elements to one that is counted above, and not in these sums.
  WeightCount repeated;
};

/// Initialisers and Constant nodes of the graph, its branches and loop bodies, and the model's functions.
/// External data is looked up in `directory`; a tensor whose data cannot be read counts as its shape says.
/// Tensors are read one by one: their elements are not in memory together.
ModelWeights count_weights(const OnnxMessages& messages, const DataFolder& directory);

/// "float", "int64"; "element type 17" where the onnx library has no name for it.
std::string element_type_text(int onnx_element_type);

}  // namespace gantry
