#include <algorithm>
#include <cctype>

#include "host/graph/text.h"

namespace gantry {
namespace {

std::string printed_origin(const std::string& name) {
  const bool plain = !name.empty() && name.front() != ' ' && name.back() != ' ' &&
                     name.find_first_of("\",\\") == std::string::npos &&
                     std::none_of(name.begin(), name.end(),
                                  [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; });
  return plain ? name : quote(name);
}

}  // namespace

std::string origin_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + printed_origin(name);
  return text;
}

std::vector<std::string> parse_origin(std::string_view comment) {
  std::vector<std::string> names;
  size_t at = 0;
  while (at < comment.size()) {
    if (comment[at] == ' ' || comment[at] == ',' || comment[at] == '\r') {
      ++at;
      continue;
    }
    size_t end = at;
    if (comment[at] == '"') {
      for (++end; end < comment.size() && comment[end] != '"'; ++end) end += comment[end] == '\\';
      if (end >= comment.size()) return names;  // a remark of a person, not an origin
      try {
        names.push_back(unquote(comment.substr(at, ++end - at)));
      } catch (const Error&) {
        return names;  // likewise
      }
    } else {
      end = std::min(comment.find(',', at), comment.size());
      std::string_view name = comment.substr(at, end - at);
      while (name.back() == ' ' || name.back() == '\r') name.remove_suffix(1);
      names.emplace_back(name);
    }
    at = end;
  }
  return names;
}

}  // namespace gantry
