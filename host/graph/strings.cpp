#include "host/graph/strings.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace gantry {
namespace {

class Interner {
 public:
  Interner() { add(""); }

  uint64_t intern(std::string_view text) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
    }
    const std::unique_lock lock(mutex_);
    if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
    return add(text);
  }

  std::string_view string_of(uint64_t number) {
    const std::shared_lock lock(mutex_);
    internal_check(number < texts_.size(), "there is no string of number {}", number);
    return texts_[number];
  }

 private:
  uint64_t add(std::string_view text) {
    const uint64_t number = texts_.size();
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
  }

  std::shared_mutex mutex_;
  std::deque<std::string> texts_;  ///< their addresses stay
  std::unordered_map<std::string_view, uint64_t> numbers_;
};

Interner& interner() {
  static Interner strings;
  return strings;
}

}  // namespace

uint64_t intern(std::string_view text) {
  return interner().intern(text);
}

std::string_view string_of(uint64_t number) {
  return interner().string_of(number);
}

ConstantPtr make_strings(const Shape& shape, const std::vector<std::string>& texts) {
  std::byte* bytes = nullptr;
  auto constant = allocate_constant({DType::kString, shape}, &bytes);
  internal_check(constant->size == texts.size() * sizeof(uint64_t), "{} strings for a tensor of {}",
                 texts.size(), to_string(shape));
  for (size_t i = 0; i < texts.size(); ++i) {
    const uint64_t number = intern(texts[i]);
    std::memcpy(bytes + i * sizeof number, &number, sizeof number);
  }
  return constant;
}

std::string_view string_at(const ConstantData& constant, size_t index) {
  uint64_t number = 0;
  internal_check(constant.type.dtype == DType::kString && (index + 1) * sizeof number <= constant.size,
                 "element {} of a {} is no string", index, constant.type.str());
  std::memcpy(&number, constant.bytes + index * sizeof number, sizeof number);
  return string_of(number);
}

std::vector<std::string> strings_of(const ConstantData& constant) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < constant.size / sizeof(uint64_t); ++i) texts.emplace_back(string_at(constant, i));
  return texts;
}

}  // namespace gantry
