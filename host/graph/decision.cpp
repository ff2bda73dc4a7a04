#include "host/graph/decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "host/support/error.h"
#include "host/support/words.h"

namespace gantry {
namespace {

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

[[noreturn]] void refuse(std::string_view text) {
  user_error("'{}' is no decision: expected a form and whole numbers, such as {{form=direct, block=32}}", text);
}

}  // namespace

int64_t Decision::knob(std::string_view name, int64_t otherwise) const {
  const auto found = std::ranges::find(knobs, name, &std::pair<std::string, int64_t>::first);
  return found == knobs.end() ? otherwise : found->second;
}

void Decision::set(std::string name, int64_t value, int64_t otherwise) {
  if (value != otherwise) knobs.emplace_back(std::move(name), value);
}

std::string to_string(const Decision& decision) {
  std::string text = "{form=" + decision.form;
  for (const auto& [name, value] : decision.knobs) text += fmt::format(", {}={}", name, value);
  return text + "}";
}

Decision parse_decision(std::string_view given) {
  const std::string_view text = trim(given);
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') refuse(text);
  Decision decision;
  for (std::string_view rest = text.substr(1, text.size() - 2); !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view entry = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const size_t equal = entry.find('=');
    if (equal == std::string_view::npos) refuse(text);
    const std::string_view name = trim(entry.substr(0, equal)), value = trim(entry.substr(equal + 1));
    if (!is_word(name) || decision.form.empty() != (name == "form")) refuse(text);
    if (name == "form") {
      if (!is_word(value)) refuse(text);
      decision.form = value;
      continue;
    }
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) refuse(text);
    if (std::ranges::any_of(decision.knobs, [&](const auto& knob) { return knob.first == name; })) refuse(text);
    decision.knobs.emplace_back(name, number);
  }
  if (decision.form.empty()) refuse(text);
  return decision;
}

}  // namespace gantry
