#include "host/onnx/tensor_file.h"

#include <onnx/onnx_pb.h>

#include <limits>

#include "host/onnx/tensor_data.h"
#include "host/support/error.h"

namespace gantry {
namespace {

bool parse(onnx::TensorProto& tensor, std::string_view bytes) {
  if (bytes.empty() || bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) return false;
  if (!tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  return tensor.has_data_type() && tensor.data_type() != onnx::TensorProto::UNDEFINED &&
         tensor.unknown_fields().empty();
}

}  // namespace

bool is_tensor_proto(std::string_view bytes) {
  onnx::TensorProto tensor;
  return parse(tensor, bytes);
}

TensorFile read_tensor_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  auto tensor = std::make_shared<onnx::TensorProto>();
  if (!parse(*tensor, {file.data(), file.size()})) {
    user_error(
        "{}: is not one ONNX tensor (TensorProto); save one with onnx.save_tensor, or NumPy arrays with "
        "numpy.save",
        path.string());
  }
  TensorReader reader(tensor, path.parent_path());
  return {tensor->name(), reader.read(*tensor, path.string())};
}

}  // namespace gantry
