// ONNX tensors -> constants.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "host/graph/graph.h"
#include "host/onnx/raw_data.h"
#include "host/support/mapped_file.h"

namespace onnx {
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace gantry {

/// The dtype of an ONNX element type; nothing if gantry has none for it.
std::optional<DType> find_dtype(int onnx_element_type);
/// The dtype of an ONNX element type; Unsupported mentions `what` if gantry has none for it (complex
/// numbers).
DType dtype_of(int onnx_element_type, const std::string& what);

/// The other way: onnx::TensorProto::FLOAT of kF32.
int onnx_element_type(DType dtype);

/// The elements as ONNX's files have them: those of less than 8 bits follow each other without gaps, the first in the
/// lowest bits.
std::string packed_elements(const ConstantData& tensor);

/// Reads the tensors of one model. Constants alias the model's bytes or mapped external files where alignment
/// allows.
class TensorReader {
 public:
  /// `owner` keeps the messages alive that read() is given; external data is looked up in `directory`, and
  /// its files are told to `reads` before they are read. `raw_data`: what the messages refer to; null:
  /// nothing.
  TensorReader(std::shared_ptr<const void> owner, DataFolder directory,
               std::function<void(const std::filesystem::path&)> reads = {},
               std::shared_ptr<RawData> raw_data = {})
      : owner_(std::move(owner)),
        directory_(std::move(directory)),
        reads_(std::move(reads)),
        raw_data_(std::move(raw_data)) {}
  /// User errors call the tensor `what` and say what is wrong with it.
  ConstantPtr read(const onnx::TensorProto& tensor, const std::string& what);
  /// As read(), of a tensor that is read once: its bytes are the constant's then, which frees them when it goes.
  ConstantPtr take(onnx::TensorProto& tensor, const std::string& what);

 private:
  ConstantPtr read_raw(const onnx::TensorProto& tensor, const TensorType& type, const std::string& what);
  ConstantPtr read_external(const onnx::TensorProto& tensor, const TensorType& type, const std::string& what);
  std::shared_ptr<const void> owner_;
  DataFolder directory_;
  std::function<void(const std::filesystem::path&)> reads_;
  std::shared_ptr<RawData> raw_data_;
  std::map<std::string, std::shared_ptr<MappedFile>> files_;
};

}  // namespace gantry
