#include "host/cli/discovery.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <tuple>

#include "rpc/protocol/service.h"

namespace gantry::cli {
namespace {

namespace keys = rpc::service_text;

/// More boards than any network has: so many that announce themselves are not meant to be read.
constexpr size_t kMostServices = 4096;
constexpr size_t kLongestName = 64;

/// How good an address is to connect to; the best is first.
enum class Reach { kNetwork4, kNetwork6, kLink4, kLink6, kMachine };

struct Address {
  std::string text;  ///< without brackets or interface
  std::string interface;
  Reach reach = Reach::kNetwork4;
  bool operator<(const Address& other) const {
    return std::tie(reach, text, interface) < std::tie(other.reach, other.text, other.interface);
  }
};

/// A service on one interface by one protocol: what later lines can take back.
struct Place {
  std::string interface, protocol, name, domain;
  bool operator<(const Place& other) const {
    return std::tie(interface, protocol, name, domain) <
           std::tie(other.interface, other.protocol, other.name, other.domain);
  }
};

struct Resolved {
  std::string host;
  Address address;
  uint16_t port = 0;
  std::map<std::string, std::string> text;
};

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_name_character(char c) {
  return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '.' || c == '-' || c == '_';
}

/// The text before the next separator, and the rest behind it.
std::string_view take(std::string_view& rest, char separator) {
  const size_t at = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return part;
}

std::optional<Address> address_of(std::string_view given, std::string_view interface) {
  const std::string text(given.substr(0, given.find('%')));
  std::array<unsigned char, 16> bytes{};
  if (::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) {
    const bool link = bytes[0] == 169 && bytes[1] == 254;
    return Address{text, "", bytes[0] == 127 ? Reach::kMachine : link ? Reach::kLink4 : Reach::kNetwork4};
  }
  if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return std::nullopt;
  const bool link = bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  if (!link) return Address{text, "", text == "::1" ? Reach::kMachine : Reach::kNetwork6};
  // Such an address means nothing without the interface.
  if (interface.empty() || !std::all_of(interface.begin(), interface.end(), is_name_character))
    return std::nullopt;
  return Address{text, std::string(interface), Reach::kLink6};
}

/// The strings of a text record, each in quotes with '"' and '\' escaped, as their entries. Of a key that is
/// there several times the first counts, whatever its case (RFC 6763, 6.4).
std::optional<std::map<std::string, std::string>> text_record(std::string_view text) {
  std::map<std::string, std::string> entries;
  while (!text.empty()) {
    if (text.front() == ' ') {
      text.remove_prefix(1);
      continue;
    }
    if (text.front() != '"') return std::nullopt;
    size_t end = 1;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    if (end >= text.size()) return std::nullopt;
    const auto entry = unescaped(text.substr(1, end - 1));
    if (!entry) return std::nullopt;
    std::string key = entry->substr(0, entry->find('='));
    std::transform(key.begin(), key.end(), key.begin(), lower);
    entries.emplace(key, key.size() < entry->size() ? entry->substr(key.size() + 1) : "");
    text.remove_prefix(end + 1);
  }
  return entries;
}

std::string entry_of(const std::map<std::string, std::string>& text, const char* key) {
  const auto found = text.find(key);
  return found == text.end() ? "" : found->second;
}

/// What the lines have said so far.
class Heard {
 public:
  /// False for a line that is none of avahi-browse's.
  bool take_line(std::string_view line) {
    const std::string_view event = take(line, ';');
    Place place;
    place.interface = take(line, ';');
    place.protocol = take(line, ';');
    const auto name = unescaped(take(line, ';'));
    const bool ours = take(line, ';') == rpc::kServiceType;
    place.domain = take(line, ';');
    if (!name || name->empty() || !ours || event.size() != 1) return false;
    place.name = *name;
    switch (event[0]) {
      case '+':
        if (services_.size() < kMostServices) services_.try_emplace(place);
        return true;
      case '-':
        services_.erase(place);
        return true;
      case '=':
        return take_resolved(place, line);
      default:
        return false;
    }
  }

  const std::map<Place, std::optional<Resolved>>& services() const { return services_; }

 private:
  bool take_resolved(const Place& place, std::string_view line) {
    Resolved resolved;
    const auto host = unescaped(take(line, ';'));
    const auto address = address_of(take(line, ';'), place.interface);
    const auto port = number_of<uint16_t>(take(line, ';'));
    const auto text = text_record(line);
    if (!host || !address || port.value_or(0) == 0 || !text) return false;
    if (services_.size() < kMostServices || services_.count(place) > 0)
      services_[place] = Resolved{*host, *address, *port, *text};
    return true;
  }

  std::map<Place, std::optional<Resolved>> services_;
};

/// Those that a board which listens on `listens` ("0.0.0.0", "::", one address; "" where it does not say)
/// answers on.
std::vector<Address> answering(const std::vector<Address>& addresses, const std::string& listens) {
  const auto answers = [&](const Address& address) {
    if (listens == "0.0.0.0") return address.text.find(':') == std::string::npos;
    return listens.empty() || listens == "::" || listens.substr(0, listens.find('%')) == address.text;
  };
  std::vector<Address> kept;
  std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(kept), answers);
  return kept;
}

std::string with_port(const Address& address, uint16_t port) {
  const bool bracketed = address.text.find(':') != std::string::npos;
  std::string text = bracketed ? "[" + address.text : address.text;
  if (!address.interface.empty()) text += "%" + address.interface;
  return text + (bracketed ? "]:" : ":") + std::to_string(port);
}

FoundBoard board_of(const std::string& name, const Resolved& first, std::vector<Address> addresses) {
  FoundBoard board;
  board.name = name;
  board.host = first.host;
  board.port = first.port;
  std::sort(addresses.begin(), addresses.end());
  for (const Address& address : addresses) {
    const std::string text = with_port(address, first.port);
    if (std::find(board.addresses.begin(), board.addresses.end(), text) == board.addresses.end())
      board.addresses.push_back(text);
  }
  board.architecture = entry_of(first.text, keys::kArchitecture);
  board.version = entry_of(first.text, keys::kProgramVersion);
  board.protocol = number_of<int>(entry_of(first.text, keys::kProtocol));
  const std::string key = entry_of(first.text, keys::kKey);
  if (key == "required" || key == "none") board.needs_key = key == "required";
  return board;
}

/// Two machines on two networks may have one name; one machine on two networks has one host and port on both.
Discovery merged(const std::map<Place, std::optional<Resolved>>& services) {
  std::map<std::tuple<std::string, std::string, uint16_t>, std::pair<Resolved, std::vector<Address>>> boards;
  std::map<std::string, bool> answered;
  for (const auto& [place, resolved] : services) {
    answered[place.name] |= resolved.has_value();
    if (!resolved) continue;
    auto& [first, addresses] =
        boards.try_emplace({place.name, resolved->host, resolved->port}, *resolved, std::vector<Address>())
            .first->second;
    addresses.push_back(resolved->address);
  }
  Discovery discovery;
  std::vector<FoundBoard>& found = discovery.boards;
  found.reserve(boards.size());
  for (const auto& [key, board] : boards) {
    const auto& [first, addresses] = board;
    const std::vector<Address> usable = answering(addresses, entry_of(first.text, keys::kListens));
    discovery.settled &= !usable.empty();
    found.push_back(board_of(std::get<0>(key), first, usable.empty() ? addresses : usable));
  }
  for (const auto& [name, has_answered] : answered) {
    if (has_answered) continue;
    discovery.settled = false;
    found.emplace_back().name = name;
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const FoundBoard& a, const FoundBoard& b) { return a.name < b.name; });
  return discovery;
}

}  // namespace

std::optional<std::string> unescaped(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    size_t taken = 1;
    if (text[0] != '\\') {
      bytes += text[0];
    } else if (text.size() >= 2 && !is_digit(text[1])) {
      bytes += text[1];
      taken = 2;
    } else {
      const auto value = number_of<unsigned>(text.substr(1, 3));
      if (text.size() < 4 || !value || *value > 255) return std::nullopt;
      bytes += static_cast<char>(*value);
      taken = 4;
    }
    text.remove_prefix(taken);
  }
  return bytes;
}

Discovery parse_browsed(std::string_view lines) {
  size_t unreadable = 0;
  Heard heard;
  while (!lines.empty()) {
    // A line that does not end is one that the program was writing when its time was up.
    if (lines.find('\n') == std::string_view::npos) break;
    const std::string_view line = take(lines, '\n');
    if (!line.empty() && !heard.take_line(line)) ++unreadable;
  }
  Discovery discovery = merged(heard.services());
  discovery.unreadable = unreadable;
  return discovery;
}

std::string usable_name(std::string_view announced, const std::vector<std::string>& taken) {
  std::string name;
  for (const char c : announced) {
    if (is_name_character(c)) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  name = name.substr(std::min(name.find_first_not_of(".-"), name.size()), kLongestName - 4);
  name.erase(name.find_last_not_of(".-") + 1);
  if (name.empty()) name = "board";
  const auto is_taken = [&](const std::string& text) {
    return std::find(taken.begin(), taken.end(), text) != taken.end();
  };
  std::string candidate = name;
  for (int number = 2; is_taken(candidate); ++number) candidate = name + "-" + std::to_string(number);
  return candidate;
}

}  // namespace gantry::cli
