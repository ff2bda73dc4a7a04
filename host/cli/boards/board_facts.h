// What a board says it is before anything is done to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/cli/boards/board_shell.h"

namespace gantry::cli {

struct BoardFacts {
  enum class Rights {
    kRoot,  ///< ssh logs in as root
    kSudo,  ///< sudo asks for no password
    kUser,
  };
  /// What lies where setup puts things.
  struct Place {
    enum class State { kFree, kSetUp, kBusy, kForeign };
    State state = State::kFree;
    std::string version;  ///< of kSetUp: what the program there says
    uint64_t free_bytes = UINT64_MAX;  ///< where the board does not know, copying will tell
  };
  std::string machine;  ///< "aarch64"
  std::string system;   ///< "Linux 6.1.21"
  std::string user, home;
  Rights rights = Rights::kUser;
  bool systemd = false;
  bool user_manager = false;  ///< systemd also runs this user's services, without a session too
  bool port_taken = false;
  bool no_user = false;  ///< neither the user whom the server becomes nor a program that makes users
  Place for_all, for_user;           ///< /opt/gantry-device, ~/.gantry-device
  std::string foreign_unit;          ///< a gantry-device.service that is not setup's, as the package's
  std::vector<std::string> missing;  ///< programs that the scripts use
};

/// Folders on the board.
inline constexpr const char* kSystemFolder = "/opt/gantry-device";
std::string user_folder(const BoardFacts& facts);

/// Reads the probe script's answers. Board errors name the board.
BoardFacts read_facts(BoardShell& shell, const std::string& label);
/// One of its answers.
void take_fact(BoardFacts& facts, const BoardShell::Answer& answer);

/// Whether scripts for what setup has put into that folder run by sudo. User error where root's folder is out
/// of the user's reach.
bool runs_by_sudo(const BoardFacts& facts, const std::string& label, const std::string& folder);

/// "aarch64, Linux 6.1.21, systemd, root by sudo"
std::string facts_text(const BoardFacts& facts);

}  // namespace gantry::cli
