// Files of a model's outputs: `--output`.
#pragma once

#include <string>

#include "host/cli/file_kind.h"
#include "host/cli/tensor_text.h"

namespace gantry::cli {

/// What the ending of `file` asks for: .npy kTensor, .npz kArchive, .pb kTensorProto. Devices, pipes and open
/// descriptors (/dev/stdout) of any other name take .npy. User error that lists the endings for any other.
FileKind kind_of_output(const std::string& file);

/// Writes `tensor` as that kind; `name` is the output's, in an archive and in ONNX's tensor. User errors as
/// kind_of_output and OutputFile.
void write_output(const std::string& file, const std::string& name, const HostTensor& tensor);

}  // namespace gantry::cli
