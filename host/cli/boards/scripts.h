// What runs on a board for setup, update and uninstall: the shell scripts beside this file, and the unit of
// the package, as parts of the program.
#pragma once

#include <string>
#include <string_view>

namespace gantry::cli {

/// Looks at the board; its argument is the port to look for. Goes on with one of the others: see
/// script_probe.sh.
std::string probe_script();
/// Their argument is their name; they have the rights of who runs them.
std::string setup_script();
std::string update_script();
std::string uninstall_script();

/// Starts the server, and again when it crashes, where no service manager does.
extern const std::string_view kRunScript;
/// gantry-device.service of the package gantry-device.
extern const std::string_view kPackageUnit;

}  // namespace gantry::cli
