// ONNX file -> graph.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host/graph/fix_sizes.h"
#include "host/graph/graph.h"

namespace onnx {
class ModelProto;
}  // namespace onnx

namespace gantry {

class CustomOps;  // host/custom_ops/custom_ops.h
class RawData;    // host/onnx/raw_data.h
class SpillFile;  // host/support/spill_file.h

/// In the place of the shape of an optional input, alone: it has no value.
inline constexpr int64_t kNoValue = -2;
inline bool is_no_value(const std::vector<GivenSize>& shape) {
  return shape.size() == 1 && shape.front() == GivenSize(kNoValue);
}

struct ImportOptions : GivenSizes {
  /// Fixes inputs' values: they become constants and are no inputs any more. Null: an optional without a value, as a shape of
  /// kNoValue says too. User error for what is no optional.
  std::map<std::string, ConstantPtr> values;
  /// Inputs that have an initialiser, which is their default: these stay inputs, the others are constants.
  /// Names of anything else change nothing.
  std::set<std::string> kept_inputs;
  /// Initialisers stay parameters of the function instead of becoming constants.
  bool freeze = true;
  /// Hears of every node that is read, as messages and origins call it, with its ONNX op. May be empty.
  std::function<void(const std::string& name, const std::string& op)> on_node;
  /// Bytes of constants that the import may make of a value and a shape (ConstantOfShape); beyond it they are
  /// made when the model runs. Tables for the columns of TfIdfVectorizer count too, and are a user error
  /// beyond it.
  int64_t constant_budget = int64_t{2} << 30;
  /// Receives warnings (the onnx checker's complaints and our own). May be empty.
  std::function<void(const std::string&)> warn;
  /// Ops that the user brings; they take the place of functions of the model. Null: there are none.
  std::shared_ptr<const CustomOps> custom_ops;
  /// Is told every file of external data before it is read; may throw. May be empty.
  std::function<void(const std::filesystem::path&)> reads;
  /// Where large raw data of a model's file may lie that has been read; null: in memory.
  std::shared_ptr<SpillFile> spill;
};

/// The messages of a model's file.
struct OnnxMessages {
  std::shared_ptr<const onnx::ModelProto> model;
  std::shared_ptr<RawData> raw_data;  ///< of large tensors, which refer to it; null: they refer to nothing
};

/// Reads the file's messages, but the raw data of large tensors, which stay in it until they are asked for.
/// User errors: not an ONNX file, truncated, 2 GB or more without the raw data.
OnnxMessages read_onnx_messages(const std::filesystem::path& path);

/// Reads a model with its external data. The file may have any size; without the raw data of large tensors,
/// which are read one by one, it has to be smaller than 2 GB. User errors: not an ONNX file, truncated, an
/// input shape that contradicts the graph; all unsupported ops at once, each with the nodes that use it; any
/// node that fails its type rule.
Graph import_onnx(const std::filesystem::path& path, const ImportOptions& options = {});
/// As import_onnx from bytes, less than 2 GB with all data; external data is looked up beside `base`.
Graph import_onnx_bytes(std::string_view bytes, const std::filesystem::path& base,
                        const ImportOptions& options = {});

}  // namespace gantry
