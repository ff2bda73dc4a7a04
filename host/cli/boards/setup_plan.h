// From what a board is to what is done to it, before anything is.
#pragma once

#include <cstdint>
#include <string>

#include "host/cli/boards/board_facts.h"
#include "host/cli/boards/device_programs.h"
#include "host/cli/boards/service_files.h"

namespace gantry::cli {

struct SetupRequest {
  std::string label;  ///< the board in messages: "pi (me@pi)"
  std::string name;   ///< of the board
  uint16_t port = 7453;
  std::string listen = "0.0.0.0";  ///< the address of the board's that the server listens on
  std::string host;                ///< by which this machine reaches it
  bool without_root = false;       ///< for the user of ssh alone, whatever rights it has
};

struct SetupPlan {
  DeviceProgram program;
  std::string folder;  ///< on the board
  Service service = Service::kBackground;
  bool as_root = false;  ///< the server becomes user gantry, else it runs as the user
  bool by_sudo = false;
  std::string user;     ///< that ssh logs in as
  std::string listen;   ///< ADDRESS:PORT
  std::string address;  ///< HOST:PORT, for clients
  uint16_t port = 0;
  std::string key_name;  ///< of its file there
};

/// "HOST:PORT", IPv6 addresses in brackets.
std::string host_and_port(const std::string& host, uint16_t port);

/// All but the program, whatever is in the way.
SetupPlan plan_place(const BoardFacts& facts, const SetupRequest& request);

/// Errors that say what is in the way, and what to do: user errors of what another option would mend, board
/// errors of what the board lacks.
SetupPlan plan_setup(const BoardFacts& facts, const SetupRequest& request, const DeviceProgram& program);

/// A line for each step.
std::string plan_text(const SetupPlan& plan);

}  // namespace gantry::cli
