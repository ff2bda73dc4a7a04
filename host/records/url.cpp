#include "host/records/url.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

namespace gantry::records {
namespace {

/// "p%41th" -> "pAth"; what is no percent-encoding stays.
std::string decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const bool encoded =
        text[i] == '%' && text.size() - i > 2 &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3;
    plain += encoded ? static_cast<char>(byte) : text[i];
    if (encoded) i += 2;
  }
  return plain;
}

/// Of libpq's parameters "password", "sslpassword", "oauth_client_secret".
bool is_secret(std::string_view parameter) {
  std::string name = decoded(parameter);
  const auto lower = [](unsigned char c) { return static_cast<char>(std::tolower(c)); };
  std::ranges::transform(name, name.begin(), lower);
  return name.find("password") != std::string::npos || name.find("secret") != std::string::npos;
}

/// Whether these are hosts, each in brackets or with a number for a port, if with any: "lab:5432,[::1]".
/// Otherwise a user and the begin of a password stand there.
bool are_hosts(std::string_view text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view host = text.substr(begin, end - begin);
    const size_t colon = host.find(':');
    const bool has_port = colon != std::string_view::npos && !host.starts_with('[');
    if (has_port && host.find_first_not_of("0123456789", colon + 1) != std::string_view::npos) return false;
    begin = end + 1;
  }
  return true;
}

/// What stands between the user's ':' and '@'. libpq looks for the first '@' in front of the first '/'. Where
/// the host seems to have another one, it belongs to a password that is not encoded. So does a '/' behind
/// what would be a port and is no number.
void remove_password_of_user(std::string& url, size_t begin) {
  const size_t first = url.find('@', begin), colon = url.find(':', begin);
  if (first == std::string::npos || colon > first) return;
  const bool slash_before = first > url.find('/', begin);
  const size_t end = url.find_first_of("/?", begin);
  if (slash_before && are_hosts(std::string_view(url).substr(begin, end - begin))) return;
  url.erase(colon, url.rfind('@', url.find_first_of(slash_before ? "?" : "/?", first)) - colon);
}

/// Where the value ends of the parameter behind the '?' or '&' at `start`. libpq takes none without a '=': an
/// '&' in front of such a text is one of a value that is not encoded.
size_t end_of_parameter(const std::string& url, size_t start) {
  size_t end = std::min(url.find('&', start + 1), url.size());
  while (end < url.size()) {
    const size_t next = std::min(url.find('&', end + 1), url.size());
    if (url.find('=', end) < next) break;
    end = next;
  }
  return end;
}

void hide_secret_parameters(std::string& url, size_t begin) {
  for (size_t start = url.find('?', begin); start != std::string::npos; start = url.find('&', start + 1)) {
    const size_t end = end_of_parameter(url, start), equals = url.find('=', start);
    if (equals < end && is_secret(std::string_view(url).substr(start + 1, equals - start - 1)))
      url.replace(equals + 1, end - equals - 1, "…");
  }
}

}  // namespace

std::string without_password(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return url;
  std::string shown = url;
  remove_password_of_user(shown, scheme + 3);
  hide_secret_parameters(shown, scheme + 3);
  return shown;
}

}  // namespace gantry::records
