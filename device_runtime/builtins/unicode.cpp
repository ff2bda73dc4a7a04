// Code points of strings, which need not be UTF-8.
#include <algorithm>
#include <iterator>

#include "device_runtime/builtins/case_table.h"
#include "device_runtime/builtins/functions.h"

namespace gantry::runtime {
namespace {

/// Where bytes that are no UTF-8 go, as Python's surrogateescape puts them.
constexpr char32_t kEscaped = 0xDC00;

uint8_t byte_at(std::string_view text, size_t at) {
  return static_cast<uint8_t>(text[at]);
}

template <size_t kCount>
char32_t mapped(const CaseRun (&runs)[kCount], char32_t value) {
  const CaseRun* run =
      std::partition_point(runs, runs + kCount, [&](const CaseRun& r) { return r.last < value; });
  if (run == runs + kCount || value < run->first || (value - run->first) % run->stride != 0) return value;
  return static_cast<char32_t>(static_cast<int32_t>(value) + run->distance);
}

}  // namespace

CodePoint code_point_at(std::string_view text, size_t at) {
  const uint8_t lead = byte_at(text, at);
  if (lead < 0x80) return {lead, 1};
  const CodePoint escaped{kEscaped + lead, 1};
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() - at < length) return escaped;
  char32_t value = lead & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    const uint8_t next = byte_at(text, at + i);
    if (next >> 6 != 2) return escaped;
    value = value << 6 | (next & 0x3fU);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  return value < kLeast[length] || value > 0x10ffff || surrogate ? escaped : CodePoint{value, length};
}

void append_utf8(std::string& text, char32_t value) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (value < 0x80) return put(value);
  if (value >= kEscaped + 0x80 && value <= kEscaped + 0xff) return put(value - kEscaped);
  const int rest = value < 0x800 ? 1 : value < 0x10000 ? 2 : 3;
  constexpr char32_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
  put(kLead[rest] | value >> (6 * rest));
  for (int i = rest; i-- > 0;) put(0x80 | (value >> (6 * i) & 0x3f));
}

std::vector<std::pair<char32_t, char32_t>> case_pairs() {
  std::vector<std::pair<char32_t, char32_t>> pairs;
  const auto append = [&](const CaseRun& run) {
    for (char32_t value = run.first; value <= run.last; value += run.stride)
      pairs.emplace_back(value, static_cast<char32_t>(static_cast<int32_t>(value) + run.distance));
  };
  for (const CaseRun& run : kLower) append(run);
  for (const CaseRun& run : kUpper) append(run);
  return pairs;
}

char32_t lower_case(char32_t value) {
  return mapped(kLower, value);
}

char32_t upper_case(char32_t value) {
  return mapped(kUpper, value);
}

bool is_white_space(char32_t value) {
  if ((value >= 0x09 && value <= 0x0d) || (value >= 0x1c && value <= 0x20)) return true;
  constexpr char32_t kOthers[] = {0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};
  return (value >= 0x2000 && value <= 0x200a) ||
         std::find(std::begin(kOthers), std::end(kOthers), value) != std::end(kOthers);
}

}  // namespace gantry::runtime
