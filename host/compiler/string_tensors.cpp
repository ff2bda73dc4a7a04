#include "host/compiler/string_tensors.h"

#include <string>

#include "device_runtime/builtins/packed_strings.h"
#include "host/graph/strings.h"
#include "host/support/error.h"

namespace gantry {

std::vector<std::byte> packed_strings(const std::vector<std::string_view>& texts) {
  auto packed = runtime::pack_strings(texts);
  if (!packed.ok()) user_error("{}", packed.status().message());
  return std::move(*packed);
}

std::vector<std::byte> packed_strings(const ConstantData& constant) {
  std::vector<std::string_view> texts;
  for (size_t i = 0; i < constant.size / sizeof(uint64_t); ++i) texts.push_back(string_at(constant, i));
  return packed_strings(texts);
}

std::vector<std::string_view> unpacked_strings(size_t elements, std::span<const std::byte> bytes) {
  auto texts = runtime::unpack_strings(elements, bytes);
  if (!texts.ok()) user_error("a tensor of strings: {}", texts.status().message());
  return std::move(*texts);
}

ConstantPtr string_constant(const Shape& shape, std::span<const std::byte> bytes) {
  const auto elements = static_cast<size_t>(element_count(shape).value());
  std::vector<std::string> texts;
  for (const std::string_view text : unpacked_strings(elements, bytes)) texts.emplace_back(text);
  return make_strings(shape, texts);
}

}  // namespace gantry
