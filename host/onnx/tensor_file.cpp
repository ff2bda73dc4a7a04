#include "host/onnx/tensor_file.h"

#include <onnx/onnx_pb.h>

#include <limits>

#include "host/graph/strings.h"
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

/// The message in a file; a user error where it is none.
std::shared_ptr<onnx::TensorProto> parse_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  auto tensor = std::make_shared<onnx::TensorProto>();
  if (!parse(*tensor, {file.data(), file.size()})) {
    user_error(
        "{}: is not one ONNX tensor (TensorProto); save one with onnx.save_tensor, or NumPy arrays with "
        "numpy.save",
        path.string());
  }
  return tensor;
}

}  // namespace

bool is_tensor_proto(std::string_view bytes) {
  onnx::TensorProto tensor;
  return parse(tensor, bytes);
}

std::string name_of_tensor_file(const std::filesystem::path& path) {
  return parse_file(path)->name();
}

TensorFile read_tensor_file(const std::filesystem::path& path) {
  const auto tensor = parse_file(path);
  TensorReader reader(tensor, folder_of(path));
  return {tensor->name(), reader.read(*tensor, path.string())};
}

std::string format_tensor_proto(const std::string& name, const ConstantData& tensor) {
  onnx::TensorProto proto;
  for (const Dim& dim : tensor.type.shape) proto.add_dims(dim.value());
  proto.set_data_type(onnx_element_type(tensor.type.dtype));
  proto.set_name(name);
  // Protocol Buffers' messages hold less than 2 GiB.
  constexpr size_t kMost = (size_t{1} << 31) - 4096;
  if (tensor.size > kMost)
    user_error("a tensor of {} bytes is too large for an ONNX tensor (.pb); write a .npy file", tensor.size);
  if (tensor.type.dtype == DType::kString) {
    for (const std::string& text : strings_of(tensor)) proto.add_string_data(text);
  } else {
    proto.set_raw_data(packed_elements(tensor));
  }
  return proto.SerializeAsString();
}

}  // namespace gantry
