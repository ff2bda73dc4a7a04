// The boards that a user has named: a TOML file under the XDG configuration folder.
//
//   [pi]
//   address = "192.168.1.20:7453"
//   key = "/home/me/.config/gantry/pi.key"
//   ssh = "me@pi"                              of a board that `gantry boards setup` has set up
//   ssh_options = ["Port=2222"]
//   folder = "/opt/gantry-device"
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace gantry::cli {

/// How a board is reached by ssh, and where `gantry boards setup` has put the server there.
struct SshAccess {
  std::string destination;           ///< "me@pi"; empty: it was not set up by gantry
  std::vector<std::string> options;  ///< of ssh's -o: "Port=2222"
  std::string folder;                ///< on the board: "/opt/gantry-device"
  bool operator==(const SshAccess&) const = default;
};

struct BoardEntry {
  std::string address;        ///< "HOST:PORT"
  std::filesystem::path key;  ///< key file; empty: none
  SshAccess ssh = {};
};

/// $XDG_CONFIG_HOME/gantry, or ~/.config/gantry. User error if neither XDG_CONFIG_HOME nor HOME is set.
std::filesystem::path config_folder();
/// boards.toml there.
std::filesystem::path boards_path();

class BoardsFile {
 public:
  /// Reads the file; none at all is an empty list. User errors name the file and the line.
  static BoardsFile read(const std::filesystem::path& path);
  /// Reads the file, has it changed, and writes it whole; makes the folder. Another gantry that updates it at
  /// the same time waits, so that neither loses what the other did. What `change` throws leaves the file as
  /// it was.
  static void update(const std::filesystem::path& path, const std::function<void(BoardsFile&)>& change);

  const std::map<std::string, BoardEntry>& boards() const { return boards_; }
  /// Adds a board, or replaces the one of that name. User errors: a name of other than letters, digits, '.',
  /// '-' and '_'; an address that is not HOST:PORT; a path or another text that is not UTF-8.
  void add(const std::string& name, BoardEntry entry);
  /// User error, with the nearest names, if there is none.
  void remove(const std::string& name);
  const BoardEntry& find(const std::string& name) const;

 private:
  void write() const;

  std::filesystem::path path_;
  std::map<std::string, BoardEntry> boards_;
};

/// A board given on the command line: a name from the file, or HOST:PORT.
struct BoardChoice {
  std::string label;  ///< as the user called it
  BoardEntry entry;
};
/// `key`: from --key; wins over the file's. User error with the nearest names where it is neither.
BoardChoice resolve_board(const std::string& name_or_address, const std::filesystem::path& key,
                          const BoardsFile& boards);

/// True for "HOST:PORT" and "[IPv6]:PORT" with a port from 1 to 65535.
bool is_address(const std::string& text);

}  // namespace gantry::cli
