#include "host/cli/tensor_output.h"

#include "host/cli/npy.h"
#include "host/cli/npz.h"
#include "host/cli/tensor_constant.h"
#include "host/onnx/tensor_file.h"
#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::cli {

FileKind kind_of_output(const std::string& file) {
  if (file.ends_with(".npy")) return FileKind::kTensor;
  if (file.ends_with(".npz")) return FileKind::kArchive;
  if (file.ends_with(".pb")) return FileKind::kTensorProto;
  const OutputTarget::Kind target = find_output_target(file).kind;
  if (target == OutputTarget::Kind::kNew || target == OutputTarget::Kind::kFile) {
    user_error(
        "--output {}: its ending does not say what to write; give .npy (NumPy's array), .npz (NumPy's "
        "archive, which takes all outputs) or .pb (ONNX's tensor)",
        file);
  }
  return FileKind::kTensor;
}

void write_output(const std::string& file, const std::string& name, const HostTensor& tensor) {
  switch (kind_of_output(file)) {
    case FileKind::kArchive:
      return write_npz(file, {{name, &tensor}});
    case FileKind::kTensorProto:
      return write_file(file, format_tensor_proto(name, *to_constant(tensor)));
    default:
      return write_npy(file, tensor);
  }
}

}  // namespace gantry::cli
