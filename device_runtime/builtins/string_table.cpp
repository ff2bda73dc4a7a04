#include "device_runtime/builtins/string_table.h"

#include <utility>

#include "device_runtime/builtins/packed_strings.h"

namespace gantry::runtime {

StringTable::StringTable(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* own) {
  for (uint32_t i = 0; own != nullptr && i < own->size(); ++i) {
    texts_.push_back(own->Get(i)->string_view());
    numbers_.emplace(texts_.back(), i);
  }
  if (texts_.empty()) {
    texts_.emplace_back();
    numbers_.emplace(texts_.back(), 0);
  }
  own_ = texts_.size();
}

Status StringTable::set_input(uint32_t input, uint64_t elements, std::span<const std::byte> packed) {
  Input given;
  given.packed.assign(packed.begin(), packed.end());
  auto texts = unpack_strings(elements, given.packed);
  if (!texts.ok()) return texts.status();
  given.texts = std::move(*texts);
  inputs_[input] = std::move(given);  // views follow: a moved vector's elements stay where they are
  return Status();
}

Status StringTable::begin_run(uint64_t limit) {
  limit_ = limit == 0 ? kUsualLimit : limit;
  for (size_t i = own_; i < texts_.size(); ++i) numbers_.erase(texts_[i]);
  texts_.resize(own_);
  made_.clear();
  bytes_ = 0;
  for (const auto& [index, input] : inputs_) bytes_ += input.packed.size() + input.texts.size() * sizeof(std::string_view);
  return Status();
}

Status StringTable::write_input(uint32_t input, uint64_t* numbers, uint64_t elements) {
  const auto found = inputs_.find(input);
  if (found == inputs_.end() || found->second.texts.size() != elements)
    return failure(GANTRY_INTERNAL, "input %u has other strings than elements", input);
  for (const std::string_view text : found->second.texts) {
    Result<uint64_t> number = intern(text);
    if (!number.ok()) return number.status();
    *numbers++ = *number;
  }
  return Status();
}

Result<uint64_t> StringTable::intern(std::string_view text) {
  if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
  const uint64_t needed = text.size() + kEntryBytes;
  if (needed > limit_ || bytes_ > limit_ - needed) {
    return failure(GANTRY_OUT_OF_MEMORY, "the strings of a run would take more than %s",
                   byte_text(static_cast<double>(limit_)).c_str());
  }
  bytes_ += needed;
  const uint64_t number = texts_.size();
  texts_.push_back(made_.emplace_back(text));
  numbers_.emplace(texts_.back(), number);
  return number;
}

Result<std::string_view> StringTable::text(uint64_t number) const {
  if (number < texts_.size()) return texts_[number];
  return failure(GANTRY_INVALID_ARGUMENT, "there is no string of number %llu: the run has %zu",
                 static_cast<unsigned long long>(number), texts_.size());
}

}  // namespace gantry::runtime
