// The part of the C API that strings have.
#include <string.h>

#include <string_view>
#include <vector>

#include "device_runtime/builtins/packed_strings.h"
#include "device_runtime/src/c_api.h"
#include "gantry/strings.h"

namespace {

using namespace gantry::runtime;  // NOLINT: this file is theirs

Status set_strings(GantrySession* session, int32_t index, const int64_t* shape, int32_t rank,
                   const char* const* texts, const size_t* lengths) {
  if (session == nullptr || (shape == nullptr && rank > 0)) return null_argument("gantry_set_strings");
  if (rank < 0 || rank > GANTRY_MAX_RANK)
    return failure(GANTRY_INVALID_ARGUMENT, "gantry_set_strings: there are no tensors of rank %d", rank);
  const std::span<const int64_t> dims(shape, static_cast<size_t>(rank));
  uint64_t bytes = 0;
  if (!dense_bytes(dims, ElementType::kString, &bytes))
    return failure(GANTRY_INVALID_ARGUMENT, "gantry_set_strings: the shape %s is impossible",
                   shape_text(dims).c_str());
  const uint64_t count = bytes / sizeof(uint64_t);
  if (texts == nullptr && count > 0) return null_argument("gantry_set_strings");
  std::vector<std::string_view> given;
  for (uint64_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr) return null_argument("gantry_set_strings");
    given.emplace_back(texts[i], lengths != nullptr ? lengths[i] : strlen(texts[i]));
  }
  Result<std::vector<std::byte>> packed = pack_strings(given);
  if (!packed.ok()) return packed.status();
  return session->session->set_strings(index, dims, *packed);
}

Status get_string(const GantrySession* session, uint64_t number, const char** text, size_t* length) {
  if (session == nullptr || text == nullptr || length == nullptr) return null_argument("gantry_get_string");
  const SessionStrings* strings = session->session->known_strings();
  if (strings == nullptr) return failure(GANTRY_INVALID_ARGUMENT, "the model has no strings");
  Result<std::string_view> found = strings->text(number);
  if (!found.ok()) return found.status();
  *text = found->data() == nullptr ? "" : found->data();
  *length = found->size();
  return Status();
}

}  // namespace

extern "C" {

GantryStatus gantry_set_strings(GantrySession* session, int32_t index, const int64_t* shape, int32_t rank,
                                const char* const* texts, const size_t* lengths) {
  return report(set_strings(session, index, shape, rank, texts, lengths));
}
GantryStatus gantry_get_string(const GantrySession* session, uint64_t number, const char** text,
                               size_t* length) {
  return report(get_string(session, number, text, length));
}

}  // extern "C"
