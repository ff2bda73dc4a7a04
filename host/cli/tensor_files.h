// Data for a model's inputs or outputs from files: `--input` and `--expect`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/tensor_text.h"

namespace gantry::cli {

struct FileTensor {
  HostTensor tensor;
  std::string source;  ///< "a.npz:x", "cat.jpg, preprocessing imagenet"
};

/// How an option reads its files.
struct FileOption {
  std::string name;                     ///< "--input"
  std::string kind;                     ///< "input" or "output": the files of a data set are input_0.pb, …
  bool exact_type = true;               ///< the model's, not only its shape
  bool images = false;                  ///< are taken too
  std::vector<std::string> preprocess;  ///< "[NAME=]PRESET" or "[NAME=]FILE.toml", for images
  std::string advice = {};              ///< behind the error for a name that no tensor has
};

/// One entry for each of `tensors`; nothing where no file has data for it. Each argument is one of
///   [NAME=]FILE          a .npy, a TensorProto or an image; without NAME for the only tensor, or the one
///   that a
///                        TensorProto names
///   [NAME=]FILE.npz:A    the array A of an archive
///   NAME=FILE.npz        its array NAME, or its only one
///   FILE.npz             every array that has a tensor's name; of numpy.savez without names: arr_0 is the
///   first FOLDER               an ONNX data set: input_0.pb, input_1.pb, … in the order of the tensors
/// What names a tensor goes before what archives and folders hold for it. User errors: a file for a tensor
/// that there is not (with the nearest names), two for one, another type or shape than the model's, an image
/// without a preprocessing or the reverse.
std::vector<std::optional<FileTensor>> read_tensor_files(const std::vector<rpc::TensorDescription>& tensors,
                                                         const std::vector<std::string>& arguments,
                                                         const FileOption& option);

/// The names of tensors that such an argument has data for, as far as they are known without reading those:
/// what it says, the arrays of an archive, the name in a TensorProto.
std::vector<std::string> names_of_argument(const std::string& argument);

/// The files that such an argument makes a command read: the archive of a member, all that is in a folder.
/// Whether they are there is left to whoever reads them.
std::vector<std::filesystem::path> files_of_argument(const std::string& argument);

}  // namespace gantry::cli
