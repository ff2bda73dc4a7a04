// Benchmarks, as an executor serves them. Private to rpc/server.
#pragma once

#include <cstdint>
#include <functional>

#include "rpc/server/answer.h"
#include "rpc/server/loaded_module.h"

namespace gantry::rpc {

/// Measures the module with the inputs that it was given; of streams, sessions of their own beside it, which
/// rests meanwhile and may use `memory_bytes` together. `progress`: as runtime::BenchmarkOptions. Shortly
/// before the request's deadline, which is the one that holds (0: none), it ends with what it has. A result
/// that is longer than a control frame becomes the answer's data where the client takes it so; for others it
/// is refused before anything is measured. Throws Error.
Answer serve_benchmark(Loaded& loaded, const wire::BenchmarkT& request, std::uint64_t memory_bytes,
                       const std::function<bool(double done)>& progress);

}  // namespace gantry::rpc
