// What the runtime reports, as the protocol's errors. Private to rpc/server.
#pragma once

#include <utility>

#include "device_runtime/src/status.h"
#include "rpc/error.h"

namespace gantry::rpc {

[[noreturn]] inline void raise(const runtime::Status& status) {
  ErrorKind kind = ErrorKind::kBoard;
  switch (status.code()) {
    case GANTRY_INVALID_ARGUMENT:
    case GANTRY_INVALID_MODULE:
    case GANTRY_INCOMPATIBLE:
      kind = ErrorKind::kRequest;
      break;
    case GANTRY_INTERNAL:
      kind = ErrorKind::kBug;
      break;
    default:
      break;
  }
  throw Error(kind, status.message());
}

inline void check(const runtime::Status& status) {
  if (!status.ok()) raise(status);
}

template <typename T>
T take(runtime::Result<T> result) {
  check(result.status());
  return std::move(*result);
}

}  // namespace gantry::rpc
