// Boards that announce themselves on the local network, by what `avahi-browse` prints of them.
//
// Everything in it is text that anybody on the network may have written: addresses and ports are checked, all
// other text is for show alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantry::cli {

/// A board as it announces itself.
struct FoundBoard {
  std::string name;                    ///< of the service, any text
  std::string host;                    ///< "pi.local"; empty where it did not answer when it was asked
  std::vector<std::string> addresses;  ///< "HOST:PORT", as is_address() wants them; best first
  uint16_t port = 0;
  /// Of its text record; empty, or none, where it says nothing that can be read.
  std::string architecture, version;
  std::optional<int> protocol;
  std::optional<bool> needs_key;
};

struct Discovery {
  std::vector<FoundBoard> boards;  ///< by name
  size_t unreadable = 0;           ///< lines
  /// Whether every board is known by an address at which it says that it answers. Where not, a part of what
  /// it announces (by IPv4, say) may not have been heard yet.
  bool settled = true;
};

/// Of the lines of `avahi-browse --resolve --parsable`: one board for all interfaces and protocols that it
/// was heard on. IPv4 before IPv6, the network's addresses before those of a link, the machine's own last;
/// none that the board says it does not listen on, unless it has no other. Never throws.
Discovery parse_browsed(std::string_view lines);

/// A text with \DDD and \C in it (RFC 6763, 4.3, as Avahi writes it) as the bytes that it stands for; none
/// where it ends within one, or DDD is no byte.
std::optional<std::string> unescaped(std::string_view text);

/// A name for the boards file out of what anybody calls a board: letters, digits, '.', '-' and '_', 1 to 64
/// of them, none of `taken`; never one that could be taken for an option.
std::string usable_name(std::string_view announced, const std::vector<std::string>& taken);

}  // namespace gantry::cli
