#include "host/cli/boards/service_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "host/cli/boards/scripts.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  internal_check(text.find(from) != std::string::npos, "the unit of the package does not have '{}'", from);
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Whether a line of the unit holds for a service of a user's too; the others give up rights that it has not.
bool is_for_users(std::string_view line) {
  constexpr std::array<std::string_view, 15> kKeys = {
      "Description",     "Documentation",  "Type",
      "EnvironmentFile", "ExecStart",      "ExecReload",
      "Restart",         "RestartSec",     "RestartPreventExitStatus",
      "KillMode",        "TimeoutStopSec", "OOMPolicy",
      "UMask",           "LimitCORE",      "NoNewPrivileges"};
  if (line.empty() || line.starts_with('[') || line.starts_with("WantedBy=")) return true;
  return std::ranges::find(kKeys, line.substr(0, line.find('='))) != kKeys.end();
}

std::string of_user(const std::string& unit) {
  std::string text;
  for (size_t start = 0; start < unit.size();) {
    const size_t end = std::min(unit.find('\n', start), unit.size());
    const std::string_view line = std::string_view(unit).substr(start, end - start);
    if (is_for_users(line)) text += std::string(line) + "\n";
    start = end + 1;
  }
  replace_all(text, " --user gantry", "");
  replace_all(text, "ExecReload=+", "ExecReload=");
  replace_all(text, "WantedBy=multi-user.target", "WantedBy=default.target");
  return text;
}

}  // namespace

const char* service_name(Service service) {
  switch (service) {
    case Service::kSystemd:
      return "systemd";
    case Service::kUserSystemd:
      return "systemd-user";
    case Service::kBackground:
      return "background";
  }
  internal_error("a service of kind {}", static_cast<int>(service));
}

bool fits_into_unit(const std::string& folder) {
  constexpr std::string_view kOthers = "/._-+";
  return std::ranges::all_of(folder, [&](unsigned char c) {
    return std::isalnum(c) != 0 || kOthers.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string unit_text(Service service, const std::string& folder) {
  std::string unit(kPackageUnit);
  replace_all(unit, "/etc/default/gantry-device", folder + "/options");
  replace_all(unit, "/usr/bin/gantry-device", folder + "/gantry-device");
  replace_all(unit, "/etc/gantry/keys", folder + "/keys");
  replace_all(unit, "/var/cache/gantry", folder + "/cache");
  return service == Service::kUserSystemd ? of_user(unit) : unit;
}

std::string options_text(Service service, const std::string& listen) {
  const char* restart = service == Service::kSystemd ? "systemctl restart gantry-device"
                        : service == Service::kUserSystemd
                            ? "systemctl --user restart gantry-device"
                            : "echo stop >control, then ./run & in this folder";
  return fmt::format(
      "# Options of `gantry-device serve`, see `gantry-device serve --help`. After a change: {}.\n"
      "OPTIONS=\"--listen {}{}\"\n",
      restart, listen, service == Service::kBackground ? " --log-level warning" : "");
}

}  // namespace gantry::cli
