#include "host/gir/safetensors.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry {
namespace {

/// Smaller constants are copied: mapping them saves nothing, and they then lie as kernels like it.
constexpr size_t kLeastMapped = 256;

/// In the order of DType. What the format has no name for, and what it would pack (less than 8 bits), is written as
/// integers of a byte each.
constexpr std::array<std::string_view, kDTypeCount> kNames = {
    "F32", "F64",  "F16",     "BF16", "I8",      "I16", "I32",     "I64", "U8", "U16", "U32", "U64", "BOOL",
    "F8_E4M3", "U8", "F8_E5M2", "U8", "F8_E8M0", "U8",  "U8", "U8", "I8", "U8", "I8", "U8",
    "U64"};

/// Whether every byte is an element: bool has two, types of less than 8 bits have what their bits can say.
bool are_elements(DType dtype, const std::byte* bytes, size_t size) {
  const int bits = dtype == DType::kBool ? 1 : bit_width(dtype);
  if (bits >= 8) return true;
  const int low = is_signed_int(dtype) ? -(1 << (bits - 1)) : 0;
  return std::all_of(bytes, bytes + size, [&](std::byte b) {
    const int value = is_signed_int(dtype) ? static_cast<int8_t>(b) : static_cast<int>(b);
    return value >= low && value < low + (1 << bits);
  });
}

std::string_view dtype_name(DType dtype) {
  return kNames[static_cast<size_t>(dtype)];
}

std::string type_text(const SafetensorsEntry& entry) {
  const auto known = std::ranges::find(kNames, entry.dtype);
  Shape shape(entry.shape.begin(), entry.shape.end());
  if (known == kNames.end()) return fmt::format("{} {}", entry.dtype, to_string(shape));
  return TensorType{static_cast<DType>(known - kNames.begin()), shape}.str();
}

}  // namespace

Safetensors::Safetensors(const std::filesystem::path& path)
    : name_(path.string()), file_(std::make_shared<MappedFile>(path)) {
  try {
    entries_ = read_safetensors_header({file_->data(), file_->size()}, data_begin_);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", name_, error.what()));
  }
}

ConstantPtr Safetensors::find(const std::string& name, const TensorType& type) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    std::vector<std::string> names;
    for (const auto& [known, entry] : entries_) names.push_back(known);
    user_error("{} has no entry '{}'{}", name_, name, did_you_mean(name, names));
  }
  const SafetensorsEntry& entry = found->second;
  if (entry.dtype != dtype_name(type.dtype) || constant_shape(type.shape) != entry.shape)
    user_error("'{}' is a {} in {}, not a {}", name, type_text(entry), name_, type.str());
  const auto* bytes = reinterpret_cast<const std::byte*>(file_->data()) + data_begin_ + entry.begin;
  const size_t size = entry.end - entry.begin;
  if (!are_elements(type.dtype, bytes, size)) {
    user_error("'{}' in {} has bytes that are no {}{}", name, name_, name_of(type.dtype),
               type.dtype == DType::kBool ? ": neither 0 nor 1" : "");
  }
  const auto width = static_cast<uintptr_t>(byte_width(type.dtype));
  if (size < kLeastMapped || reinterpret_cast<uintptr_t>(bytes) % width != 0) return make_constant(type, bytes);
  auto constant = std::make_shared<ConstantData>();
  constant->type = type;
  constant->bytes = bytes;
  constant->size = size;
  constant->owner = file_;
  return constant;
}

SafetensorsLayout safetensors_layout(const std::vector<std::pair<std::string, ConstantPtr>>& tensors) {
  std::vector<size_t> order(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater(),
                           [&](size_t i) { return byte_width(tensors[i].second->type.dtype); });
  SafetensorsLayout layout;
  nlohmann::json header = nlohmann::json::object();
  uint64_t at = 0;
  for (const size_t i : order) {
    const auto& [name, constant] = tensors[i];
    header[name] = {{"dtype", std::string(dtype_name(constant->type.dtype))},
                    {"shape", *constant_shape(constant->type.shape)},
                    {"data_offsets", {at, at + constant->size}}};
    at += constant->size;
    layout.tensors.push_back(constant);
  }
  std::string text = header.dump();
  constexpr size_t kAlignment = 8;
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  for (size_t i = 0; i < 8; ++i) layout.head += static_cast<char>((text.size() >> (8 * i)) & 0xff);
  layout.head += text;
  return layout;
}

}  // namespace gantry
