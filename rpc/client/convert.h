/// Between the client's plain types and the protocol's.
#ifndef GANTRY_RPC_CLIENT_CONVERT_H
#define GANTRY_RPC_CLIENT_CONVERT_H

#include "rpc/client/types.h"
#include "rpc/protocol/message.h"

namespace gantry::rpc {

BoardInfo from_wire(wire::BoardDescriptionT&& board);
LoadedModule from_wire(wire::ModuleLoadedT&& module);
/// Throws Error(kBug) on figures that no board measures: negative times, infinite readings.
BenchmarkResult from_wire(wire::BenchmarkFinishedT&& result);
MeasuringQueue from_wire(wire::LeaseQueueT&& queue);
/// Throws Error(kBug) on negative times and the like.
std::vector<OtherWork> from_wire(wire::MeasuredBesideT&& beside);
wire::BenchmarkT to_wire(std::uint32_t handle, const BenchmarkOptions& options);
/// Of a board's word; what is longer than some 34 years is not.
std::chrono::milliseconds to_time(std::uint64_t ms);
std::uint32_t to_deadline(std::chrono::milliseconds deadline);

}  // namespace gantry::rpc
#endif
