/// What systemd, or another service manager that speaks its protocol, wants to hear of a server that it has
/// started.
#ifndef GANTRY_RPC_SERVER_SERVICE_MANAGER_H
#define GANTRY_RPC_SERVER_SERVICE_MANAGER_H

#include <string>

namespace gantry::rpc {

/// Says that the server accepts connections, and what `systemctl status` is to show: to the socket that
/// $NOTIFY_SOCKET names (sd_notify(3), Type=notify). Does nothing without one, and nothing else where it
/// cannot be reached: the manager's own timeout reports that.
void tell_service_manager_ready(const std::string& status);

}  // namespace gantry::rpc
#endif
