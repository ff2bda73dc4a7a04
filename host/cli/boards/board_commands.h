// `gantry boards setup`, `update` and `uninstall`.
#pragma once

#include <filesystem>
#include <string>

#include "host/cli/invocation.h"

namespace CLI {
class App;
}

namespace gantry::cli {

/// Add themselves to the command `boards`.
void add_boards_setup_command(CLI::App& boards, Invocation& invocation);
void add_boards_update_command(CLI::App& boards, Invocation& invocation);
void add_boards_uninstall_command(CLI::App& boards, Invocation& invocation);

/// Where setup puts the key of a board of that name; nobody else puts keys there.
std::filesystem::path setup_key_path(const std::string& name);

}  // namespace gantry::cli
