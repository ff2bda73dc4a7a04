// Files with one ONNX tensor (TensorProto), as the test data beside models are: input_0.pb.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "host/graph/graph.h"

namespace gantry {

struct TensorFile {
  std::string name;  ///< as the tensor says; often "", or the input's
  ConstantPtr data;
};

/// Whether the bytes are one serialised TensorProto, with a type and nothing that it does not know: such
/// files have no magic. Models are none.
bool is_tensor_proto(std::string_view bytes);

/// Reads a tensor of any element type that gantry has, from raw_data, the typed fields or external data
/// beside the file. User errors name the file: not a tensor, dimensions that contradict its data, a type that
/// gantry has not.
TensorFile read_tensor_file(const std::filesystem::path& path);

/// The name that the tensor in such a file says, often "", without its data. User errors: not a tensor.
std::string name_of_tensor_file(const std::filesystem::path& path);

/// The bytes of a TensorProto of that name, its elements in raw_data: what read_tensor_file() reads.
std::string format_tensor_proto(const std::string& name, const ConstantData& tensor);

}  // namespace gantry
