// The part as a whole: its functions by name, and the strings of sessions.
#include <algorithm>

#include "device_runtime/builtins/functions.h"
#include "device_runtime/builtins/string_table.h"
#include "device_runtime/src/module_format.h"

namespace gantry::runtime {
namespace {

using module_format::kImages, module_format::kStrings;

struct Entry {
  std::string_view name;
  Status (*function)(const BuiltinCall&);
  std::string_view feature = kStrings;
};
constexpr Entry kFunctions[] = {
    {"text.concat", concat_texts},
    {"text.split_counts", count_parts},
    {"text.split", split_texts},
    {"text.kept_count", count_kept},
    {"text.normalize", normalize_texts},
    {"text.matches", match_texts},
    {"text.token_count", count_tokens},
    {"text.tokens", put_tokens},
    {"text.format", format_numbers},
    {"text.parse", parse_numbers},
    {"text.ranks", rank_texts},
    {"image.size", measure_image, kImages},
    {"image.decode", decode_image, kImages},
};

const Entry* find(std::string_view name) {
  const Entry* end = std::end(kFunctions);
  const Entry* found =
      std::find_if(std::begin(kFunctions), end, [&](const Entry& e) { return e.name == name; });
  return found == end ? nullptr : found;
}

class Builtins : public BuiltinPart {
 public:
  std::string_view feature_of(std::string_view function) const override {
    const Entry* entry = find(function);
    return entry == nullptr ? std::string_view() : entry->feature;
  }
  Status call(const BuiltinCall& call) const override {
    const Entry* entry = find(call.function);
    if (entry == nullptr || (entry->feature == kStrings && call.strings == nullptr)) return bad_call(call);
    return entry->function(call);
  }
  std::unique_ptr<SessionStrings> make_strings(const module_format::Manifest& manifest) const override {
    const auto* required = manifest.requires_();
    for (uint32_t i = 0; required != nullptr && i < required->size(); ++i) {
      if (required->Get(i)->string_view() == kStrings)
        return std::make_unique<StringTable>(manifest.strings());
    }
    return nullptr;
  }
};

}  // namespace

const BuiltinPart* builtin_part() {
  static const Builtins part;
  return &part;
}

// --- what functions share

Status bad_call(const BuiltinCall& call) {
  return failure(GANTRY_INVALID_MODULE, "the module's plan: %s is not called so",
                 std::string(call.function).c_str());
}

Status check_call(const BuiltinCall& call, std::initializer_list<ElementType> inputs,
                  std::initializer_list<ElementType> outputs, size_t integers) {
  const auto fits = [](std::span<const BuiltinTensor> tensors, std::initializer_list<ElementType> types) {
    return tensors.size() >= types.size() &&
           std::equal(types.begin(), types.end(), tensors.begin(),
                      [](ElementType type, const BuiltinTensor& tensor) { return tensor.type == type; });
  };
  const bool fitting =
      fits(call.inputs, inputs) && fits(call.outputs, outputs) && call.integers.size() >= integers;
  return fitting ? Status() : bad_call(call);
}

Result<std::string_view> text_at(const BuiltinCall& call, const BuiltinTensor& tensor, uint64_t index) {
  return call.strings->text(tensor.as<uint64_t>()[index]);
}

Status put_text(const BuiltinCall& call, const BuiltinTensor& tensor, uint64_t index, std::string_view text) {
  Result<uint64_t> number = call.strings->intern(text);
  if (!number.ok()) return number.status();
  tensor.as<uint64_t>()[index] = *number;
  return Status();
}

std::string shown(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string result = "'";
  for (const char c : text.substr(0, kMost)) result += c >= 0 && c < ' ' ? '?' : c;
  return result + (text.size() > kMost ? "…'" : "'");
}

}  // namespace gantry::runtime
