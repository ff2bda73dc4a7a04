/// What a benchmark read of the machine, in the protocol's terms.
#ifndef GANTRY_RPC_SERVER_PROBE_READING_H
#define GANTRY_RPC_SERVER_PROBE_READING_H

#include "device_runtime/src/machine_watch.h"
#include "protocol_generated.h"

namespace gantry::rpc {

/// Fills in the states before, during and after the runs, the readings, their CPUs and their notes.
void add_machine(const runtime::MachineRecord& record, wire::BenchmarkFinishedT& out);

}  // namespace gantry::rpc
#endif
