// A decision whose kernel cannot be scheduled as it says.
#pragma once

#include <string>

#include "host/support/error.h"

namespace gantry {

/// A user error of analysis::refuse_knob: where somebody else can be asked for a decision, he may be.
class KnobMisfit : public Error {
 public:
  explicit KnobMisfit(const std::string& message) : Error(ErrorKind::kUser, message) {}
};

}  // namespace gantry
