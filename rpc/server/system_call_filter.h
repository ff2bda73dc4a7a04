#ifndef GANTRY_RPC_SERVER_SYSTEM_CALL_FILTER_H
#define GANTRY_RPC_SERVER_SYSTEM_CALL_FILTER_H

namespace gantry::rpc {

/// From now on this process can start threads, but neither processes nor programs: these calls fail. Needs
/// "no new privileges". Returns 0, or an errno where the system has no such filter.
int forbid_new_processes();

}  // namespace gantry::rpc
#endif
