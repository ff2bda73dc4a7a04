// Files of named tensors in the format safetensors (https://github.com/huggingface/safetensors), which
// Python programs read and write:
//
//   offset 0    length N of the header, 8 bytes, little-endian
//   offset 8    header: a JSON object, {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …},
//               perhaps padded with blanks; "__metadata__" maps strings to strings
//   8 + N       the tensors' bytes, dense and row-major, one behind the other without gaps; offsets count from
//               here
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/graph/graph.h"
#include "host/support/mapped_file.h"

namespace gantry {

/// What the header says of a tensor, checked against the file's size.
struct SafetensorsEntry {
  std::string dtype;  ///< as the file says: "F32"
  std::vector<int64_t> shape;
  size_t begin = 0, end = 0;  ///< of its bytes, from where the header ends
};

/// Reads and checks the header at the beginning of `file`. User errors, without the file's name: no such
/// header, longer than the file; an entry that is no description of a tensor, lies outside the data, has
/// another size than its type and shape, or overlaps another; names given twice; data that belong to none.
/// Element types that gantry has not are no error: see Safetensors::find.
std::map<std::string, SafetensorsEntry> read_safetensors_header(std::string_view file, size_t& data_begin);

/// A file of weights, mapped.
class Safetensors {
 public:
  /// User errors name the file.
  explicit Safetensors(const std::filesystem::path& path);

  /// The tensor of that name and type. It aliases the file, which it keeps mapped, but where its bytes do not
  /// lie at a multiple of the element's size, and where it is small. User errors: there is none of that name,
  /// with the nearest; it is of another type or shape; a bool that is neither 0 nor 1.
  ConstantPtr find(const std::string& name, const TensorType& type) const;

 private:
  std::string name_;
  std::shared_ptr<const MappedFile> file_;
  size_t data_begin_ = 0;
  std::map<std::string, SafetensorsEntry> entries_;
};

/// The header and the order in which tensors follow it: those of wide elements first, so that all are aligned.
struct SafetensorsLayout {
  std::string head;  ///< length and header
  std::vector<ConstantPtr> tensors;
};
SafetensorsLayout safetensors_layout(const std::vector<std::pair<std::string, ConstantPtr>>& tensors);

}  // namespace gantry
