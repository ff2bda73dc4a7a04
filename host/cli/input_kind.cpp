#include "host/cli/input_kind.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <span>
#include <string_view>

#include "host/cli/image.h"
#include "host/onnx/tensor_data.h"
#include "host/onnx/tensor_file.h"
#include "host/support/error.h"
#include "host/support/input_file.h"

namespace gantry::cli {
namespace {

struct Magic {
  std::string_view bytes;
  InputKind kind;
};
constexpr Magic kMagics[] = {
    {std::string_view("\x93NUMPY", 6), InputKind::kNpy},
    {std::string_view("PK\x03\x04", 4), InputKind::kNpz},
    {std::string_view("PK\x05\x06", 4), InputKind::kNpz},  // without members
};
constexpr size_t kLongestMagic = 12;  // of an image

}  // namespace

InputKind kind_of_input(const std::filesystem::path& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return InputKind::kNpy;
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path, errno);
  std::string start(kLongestMagic, '\0');
  file.read(start.data(), kLongestMagic);
  start.resize(static_cast<size_t>(file.gcount()));
  for (const Magic& magic : kMagics) {
    if (start.starts_with(magic.bytes)) return magic.kind;
  }
  if (begins_as_image(std::as_bytes(std::span(start)))) return InputKind::kImage;
  if (!start.empty()) {
    const MappedFile mapped(path);
    if (is_tensor_proto({mapped.data(), mapped.size()})) return InputKind::kTensorProto;
  }
  user_error(
      "{}: {}; data come from .npy or .npz files (numpy.save, numpy.savez), ONNX tensors (.pb), and "
      "images (.png, .jpg, .webp, .bmp, .tif, .ppm and the like)",
      path.string(), start.empty() ? "is empty" : "holds none of the kinds that are read");
}

std::vector<std::byte> read_bytes(const std::filesystem::path& path, uint64_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path, errno);
  std::vector<std::byte> bytes;
  constexpr size_t kPiece = size_t{1} << 20;
  while (file) {  // pipes have no size to ask for
    const size_t at = bytes.size();
    if (at > most) user_error("{}: has more than {} bytes", path.string(), most);
    bytes.resize(at + kPiece);
    file.read(reinterpret_cast<char*>(bytes.data() + at), kPiece);
    bytes.resize(at + static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) user_error("{}: cannot be read", path.string());
  return bytes;
}

}  // namespace gantry::cli
