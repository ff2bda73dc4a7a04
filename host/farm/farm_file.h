// The boards of a gateway, or of a board that is its own: a TOML file, and beside it locks and a log.
//
//   [pi5-1]
//   type = "pi5"                        of Slurm's resource: board:pi5
//   address = "10.1.0.21:7453"          as clients reach it
//   keys = "/opt/gantry-device/keys"    the key folder of its gantry-device, as this machine has it
//   drained = "fan"                     why it is leased to nobody; absent: it is
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace gantry::farm {

struct FarmBoard {
  std::string type, address;
  std::filesystem::path keys;
  std::string drained;  ///< why; "": it is not
};

/// $GANTRY_FARM, or /etc/gantry/farm.
std::filesystem::path farm_folder();

class FarmFile {
 public:
  /// farm.toml of the folder; none at all is a farm without boards. User errors name the file and the line.
  static FarmFile read(const std::filesystem::path& folder);
  /// Has it changed and writes it whole; makes the folder. Its group may read it, and lock boards, whatever
  /// the umask. Another that updates it at the same time waits.
  static void update(const std::filesystem::path& place, const std::function<void(FarmFile&)>& change);

  const std::map<std::string, FarmBoard>& boards() const { return boards_; }
  /// One of that name that is there is replaced, and stays drained if it is. User errors: a name of other
  /// than letters, digits, '.', '-' and '_'; a key folder that another board has.
  void add(const std::string& name, FarmBoard board);
  /// User error, with the nearest names, if there is none.
  FarmBoard& find(const std::string& name);

 private:
  std::filesystem::path path_;
  std::map<std::string, FarmBoard> boards_;
};

/// A board's lock, held while somebody has it, whatever Slurm thinks: a controller that has forgotten a job
/// may lease its board again. Ends with the process.
class BoardLock {
 public:
  static std::optional<BoardLock> try_take(const std::filesystem::path& folder, const std::string& board);
  BoardLock(BoardLock&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  BoardLock(const BoardLock&) = delete;
  BoardLock& operator=(const BoardLock&) = delete;
  BoardLock& operator=(BoardLock&&) = delete;
  ~BoardLock();

 private:
  explicit BoardLock(int file) : file_(file) {}
  int file_;
};

/// Adds "TIME TEXT" (UTC) to the folder's log, whole, beside other writers. Where it cannot be written,
/// nothing.
void add_to_log(const std::filesystem::path& folder, const std::string& text);

}  // namespace gantry::farm
