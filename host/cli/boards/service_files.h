// The files beside the program on a board: what starts it, and its settings.
#pragma once

#include <string>

namespace gantry::cli {

/// Who starts the server and watches over it.
enum class Service {
  kSystemd,      ///< systemd, as a service of the system
  kUserSystemd,  ///< systemd, as a service of the user
  kBackground,   ///< the script `run`
};
/// As the scripts call it.
const char* service_name(Service service);

/// The unit of the package, for a program in `folder`, which a service of the user's makes without what only
/// root may ask for.
std::string unit_text(Service service, const std::string& folder);
/// Whether paths below the folder can stand in a unit as they are.
bool fits_into_unit(const std::string& folder);

/// The settings: a file that systemd and shells read. `listen`: "0.0.0.0:7453".
std::string options_text(Service service, const std::string& listen);

}  // namespace gantry::cli
