#include "device_runtime/builtins/packed_strings.h"

#include <string.h>

namespace gantry::runtime {

Result<std::vector<std::string_view>> unpack_strings(uint64_t elements, std::span<const std::byte> packed) {
  constexpr uint64_t kLengthBytes = sizeof(uint32_t);
  if (elements > packed.size() / kLengthBytes)
    return failure(GANTRY_INVALID_ARGUMENT, "%llu bytes are too few for %llu strings",
                   static_cast<unsigned long long>(packed.size()), static_cast<unsigned long long>(elements));
  std::vector<std::string_view> texts;
  texts.reserve(elements);
  uint64_t at = elements * kLengthBytes;
  for (uint64_t i = 0; i < elements; ++i) {
    uint32_t length = 0;
    memcpy(&length, packed.data() + i * kLengthBytes, sizeof length);
    if (length > packed.size() - at)
      return failure(GANTRY_INVALID_ARGUMENT, "string %llu of %llu ends beyond its bytes",
                     static_cast<unsigned long long>(i), static_cast<unsigned long long>(elements));
    texts.emplace_back(reinterpret_cast<const char*>(packed.data()) + at, length);
    at += length;
  }
  if (at != packed.size())
    return failure(GANTRY_INVALID_ARGUMENT, "%llu bytes stand behind the last string",
                   static_cast<unsigned long long>(packed.size() - at));
  return texts;
}

Result<std::vector<std::byte>> pack_strings(std::span<const std::string_view> texts) {
  uint64_t total = texts.size() * sizeof(uint32_t);
  for (const std::string_view text : texts) {
    if (text.size() > UINT32_MAX) return failure(GANTRY_INVALID_ARGUMENT, "a string has 4 GiB or more");
    total += text.size();
  }
  std::vector<std::byte> packed(total);
  uint64_t at = texts.size() * sizeof(uint32_t);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto length = static_cast<uint32_t>(texts[i].size());
    memcpy(packed.data() + i * sizeof length, &length, sizeof length);
    if (length > 0) memcpy(packed.data() + at, texts[i].data(), length);
    at += length;
  }
  return packed;
}

Result<std::vector<std::byte>> pack_numbers(const SessionStrings& strings,
                                            std::span<const uint64_t> numbers) {
  std::vector<std::string_view> texts;
  for (const uint64_t number : numbers) {
    Result<std::string_view> text = strings.text(number);
    if (!text.ok()) return text.status();
    texts.push_back(*text);
  }
  return pack_strings(texts);
}

}  // namespace gantry::runtime
