// The strings of a session: see SessionStrings.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "device_runtime/src/builtins.h"

namespace gantry::runtime {

class StringTable : public SessionStrings {
 public:
  /// Of the module's strings; the empty one is the first, in a module without any too.
  explicit StringTable(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* own);

  Status set_input(uint32_t input, uint64_t elements, std::span<const std::byte> packed) override;
  Status begin_run(uint64_t limit) override;
  Status write_input(uint32_t input, uint64_t* numbers, uint64_t elements) override;
  Result<uint64_t> intern(std::string_view text) override;
  Result<std::string_view> text(uint64_t number) const override;
  uint64_t bytes() const override { return bytes_; }

 private:
  struct Input {
    std::vector<std::byte> packed;
    std::vector<std::string_view> texts;  ///< in `packed`
  };
  /// What an entry costs beside its bytes.
  static constexpr uint64_t kEntryBytes = 96;
  static constexpr uint64_t kUsualLimit = uint64_t{1} << 30;

  size_t own_ = 0;                       ///< how many are the module's
  std::vector<std::string_view> texts_;  ///< by number: the module's bytes, or of made_
  std::deque<std::string> made_;
  std::unordered_map<std::string_view, uint64_t> numbers_;
  std::map<uint32_t, Input> inputs_;
  uint64_t bytes_ = 0, limit_ = kUsualLimit;
};

}  // namespace gantry::runtime
