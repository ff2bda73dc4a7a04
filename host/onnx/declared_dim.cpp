#include "host/onnx/declared_dim.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

namespace gantry {
namespace {

/// Whether an exporter writes this where a dimension has no name: nothing but signs ("", "?", "*"), a number
/// that is no size ("-1", "0"), or a word that says so ("None").
bool is_placeholder(std::string_view name) {
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && stop == name.data() + name.size()) return number <= 0;
  std::string letters;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || byte >= 0x80) letters += static_cast<char>(std::tolower(byte));
  }
  static constexpr std::string_view kWords[] = {"",    "none",    "null", "nil",      "nan",
                                                "unk", "unknown", "any",  "undefined"};
  return std::find(std::begin(kWords), std::end(kWords), letters) != std::end(kWords);
}

}  // namespace

std::optional<int64_t> declared_size(const onnx::TensorShapeProto_Dimension& dim) {
  if (dim.has_dim_value() && dim.dim_value() > 0) return dim.dim_value();
  return std::nullopt;
}

std::string declared_name(const onnx::TensorShapeProto_Dimension& dim) {
  return dim.has_dim_param() && !is_placeholder(dim.dim_param()) ? dim.dim_param() : "";
}

bool may_be(const onnx::TensorShapeProto& declared, const Shape& shape) {
  if (static_cast<size_t>(declared.dim_size()) != shape.size()) return false;
  for (int i = 0; i < declared.dim_size(); ++i) {
    const auto size = declared_size(declared.dim(i));
    if (size && provably_different(shape[static_cast<size_t>(i)], *size)) return false;
  }
  return true;
}

std::string shape_text(const onnx::TensorShapeProto& declared) {
  std::string text;
  for (const auto& dim : declared.dim()) {
    const auto size = declared_size(dim);
    const std::string name = declared_name(dim);
    text += (text.empty() ? "" : ", ") + (size ? std::to_string(*size) : name.empty() ? "?" : name);
  }
  return "(" + text + ")";
}

}  // namespace gantry
