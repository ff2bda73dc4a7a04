// What the files of the C API share.
#pragma once

#include <memory>

#include "device_runtime/src/session.h"
#include "device_runtime/src/status.h"

struct GantrySession {
  std::unique_ptr<gantry::runtime::Session> session;
};

namespace gantry::runtime {

/// Keeps the message of a failure for gantry_last_error.
GantryStatus report(const Status& status);
/// INVALID_ARGUMENT that names the function.
Status null_argument(const char* function);

}  // namespace gantry::runtime
