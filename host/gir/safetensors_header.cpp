#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "host/gir/safetensors.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
/// What the format's own library takes.
constexpr uint64_t kMostHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";
/// Objects in the header: itself, an entry, its lists.
constexpr int kDeepest = 3;

uint64_t header_length(std::string_view file) {
  if (file.size() < kLengthBytes)
    user_error("is no safetensors file: it has {} bytes, less than the length of a header", file.size());
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
  if (length > kMostHeader)
    user_error("is no safetensors file: its header would have {} bytes; {} are allowed", length, kMostHeader);
  if (length > file.size() - kLengthBytes) {
    user_error("is truncated, or no safetensors file: its header should have {} bytes, but the file ends {} "
               "behind its length",
               length, file.size() - kLengthBytes);
  }
  return length;
}

/// Bytes an element takes in the file; 0 for types that nobody knows here.
size_t element_bytes(const std::string& dtype) {
  static const std::map<std::string, size_t> kBytes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"I16", 2}, {"U16", 2},
      {"F16", 2},  {"BF16", 2}, {"I32", 4}, {"U32", 4},     {"F32", 4},     {"I64", 8}, {"U64", 8},
      {"F64", 8}};
  const auto found = kBytes.find(dtype);
  return found == kBytes.end() ? 0 : found->second;
}

Json parse_header(std::string_view text) {
  // The parser keeps the last of several members of one name, which another reader may not.
  std::vector<std::set<std::string>> names;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest) user_error("is damaged: its header has lists within lists within lists");
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second)
      user_error("is damaged: its header names '{}' twice", parsed.get<std::string>());
    return true;
  };
  try {
    Json header = Json::parse(text, check);
    if (header.is_object()) return header;
  } catch (const Json::exception&) {
    // As any other header that is no object.
  }
  user_error("is no safetensors file: its header is no JSON object");
}

std::vector<uint64_t> numbers_of(const std::string& name, const Json& entry, const char* member) {
  const auto found = entry.find(member);
  std::vector<uint64_t> numbers;
  if (found != entry.end() && found->is_array()) {
    for (const Json& each : *found) {
      if (!each.is_number_unsigned()) break;
      numbers.push_back(each.get<uint64_t>());
    }
    if (numbers.size() == found->size()) return numbers;
  }
  user_error("is damaged: the \"{}\" of the entry '{}' is no list of numbers", member, name);
}

SafetensorsEntry read_entry(const std::string& name, const Json& json, size_t data_size) {
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json["dtype"].is_string())
    user_error("is damaged: the entry '{}' does not have dtype, shape and data_offsets", name);
  SafetensorsEntry entry;
  entry.dtype = json["dtype"].get<std::string>();
  const std::vector<uint64_t> offsets = numbers_of(name, json, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_size) {
    user_error("is damaged or truncated: the entry '{}' should be bytes {} of the data, which has {}", name,
               fmt::join(offsets, " to "), data_size);
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const std::vector<uint64_t> shape = numbers_of(name, json, "shape");
  const size_t width = element_bytes(entry.dtype);
  uint64_t bytes = width;
  const bool empty = std::ranges::find(shape, 0u) != shape.end();
  bool fits = true;
  for (const uint64_t size : shape) {
    fits = fits && size <= static_cast<uint64_t>(INT64_MAX) &&
           (empty || !__builtin_mul_overflow(bytes, size, &bytes));
    entry.shape.push_back(static_cast<int64_t>(size));
  }
  if (empty) bytes = 0;
  if (!fits || (width != 0 && bytes != entry.end - entry.begin)) {
    user_error("is damaged: the entry '{}' of {} ({}) has {} bytes", name, entry.dtype, fmt::join(shape, ", "),
               entry.end - entry.begin);
  }
  return entry;
}

/// The entries must be the data, each byte once.
void check_places(const std::map<std::string, SafetensorsEntry>& entries, size_t data_size) {
  std::vector<std::pair<const std::string*, const SafetensorsEntry*>> order;
  for (const auto& [name, entry] : entries) order.emplace_back(&name, &entry);
  std::ranges::sort(order, {}, [](const auto& e) { return std::pair(e.second->begin, e.second->end); });
  size_t at = 0;
  for (const auto& [name, entry] : order) {
    if (entry->begin < at) user_error("is damaged: the entry '{}' overlaps another", *name);
    if (entry->begin > at)
      user_error("is damaged: bytes {} to {} of the data belong to no entry", at, entry->begin);
    at = entry->end;
  }
  if (at != data_size) user_error("is damaged: bytes {} to {} of the data belong to no entry", at, data_size);
}

}  // namespace

std::map<std::string, SafetensorsEntry> read_safetensors_header(std::string_view file, size_t& data_begin) {
  const uint64_t length = header_length(file);
  data_begin = kLengthBytes + length;
  const size_t data_size = file.size() - data_begin;
  const Json header = parse_header(file.substr(kLengthBytes, length));
  std::map<std::string, SafetensorsEntry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name != kMetadata) entries.emplace(name, read_entry(name, json, data_size));
  }
  check_places(entries, data_size);
  return entries;
}

}  // namespace gantry
