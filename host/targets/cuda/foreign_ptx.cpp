#include "host/targets/cuda/foreign_ptx.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>
#include <utility>

#include "host/support/error.h"
#include "host/targets/cuda/ptx_text.h"

namespace gantry::cuda {
namespace {

/// Of PTX: 7.8 is {7, 8}.
using Version = std::pair<int, int>;

int number_of(std::string_view digits) {
  int value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

/// What stands behind a directive that begins a line; empty if there is none.
std::string_view directive(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::string_view before = text.substr(0, at);
    const size_t line = before.rfind('\n') + 1;  // 0 where there is none
    if (before.substr(line).find_first_not_of(" \t") != std::string_view::npos) continue;
    std::string_view rest = text.substr(at + name.size());
    rest = rest.substr(0, rest.find('\n'));
    const size_t first = rest.find_first_not_of(" \t");
    return first == std::string_view::npos ? std::string_view() : rest.substr(first);
  }
  return {};
}

Version version_of(std::string_view text) {
  const std::string_view version = directive(text, ".version");
  const size_t point = version.find('.');
  return {number_of(version), point == std::string_view::npos ? 0 : number_of(version.substr(point + 1))};
}

/// "sm_86" -> 86
int architecture_of(std::string_view name) {
  const size_t at = name.find("sm_");
  return at == std::string_view::npos ? 0 : number_of(name.substr(at + 3));
}

bool is_identifier_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}

/// The text with another name wherever the name stands; `found`: whether an entry is called so.
std::string renamed(std::string_view text, const std::string& name, const std::string& other, bool& found) {
  std::string result;
  std::string_view before;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (is_identifier_char(text[at]) || text[at] == '.') {
      while (end < text.size() && is_identifier_char(text[end])) ++end;
    }
    const std::string_view token = text.substr(at, end - at);
    found = found || (token == name && before == ".entry");
    result += token == name ? std::string_view(other) : token;
    if (std::isspace(static_cast<unsigned char>(token.front())) == 0) before = token;
    at = end;
  }
  return result;
}

std::string without_head(std::string_view text) {
  std::string rest;
  for_each_line(text, [&](std::string_view line) {
    if (!is_head(line)) rest.append(line) += '\n';
  });
  return rest;
}

}  // namespace

void add_foreign(std::string& ptx, std::span<const ForeignGpuText> foreign, const Target& target) {
  if (foreign.empty()) return;
  Version newest = ptx.empty() ? Version{6, 0} : version_of(ptx);
  std::string body = without_head(ptx);
  for (const ForeignGpuText& text : foreign) {
    const std::string_view its_target = directive(text.text, ".target");
    if (architecture_of(its_target) > architecture_of(target.gpu_arch)) {
      user_error("custom op {} for {}: {}: is for {}, which is newer than {}", text.op, target.name,
                 text.file, its_target, target.gpu_arch);
    }
    newest = std::max(newest, version_of(text.text));
    bool found = false;
    body += "\n" + renamed(without_head(text.text), text.entry, text.name, found);
    if (!found)
      user_error("custom op {} for {}: {}: has no .entry {}", text.op, target.name, text.file, text.entry);
  }
  ptx = fmt::format(".version {}.{}\n.target {}\n.address_size 64\n{}", newest.first, newest.second,
                    target.gpu_arch, body);
}

}  // namespace gantry::cuda
