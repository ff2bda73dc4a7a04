// What this machine, or a board, lacks for now.
#pragma once

#include <string>

#include "host/support/error.h"

namespace gantry {

/// A user error that says nothing of what was asked for: a disk is full, say, or a board has no memory for
/// two programs at once. The same may be done where there is enough.
class Shortage : public Error {
 public:
  explicit Shortage(const std::string& message) : Error(ErrorKind::kUser, message) {}
};

}  // namespace gantry
