// Asks Avahi, the service discovery of Linux, what announces itself on the local network.
#pragma once

#include <chrono>
#include <string>

namespace gantry::cli {

/// What `avahi-browse --resolve --parsable` printed about services of a type ("_gantry._tcp").
struct Browsed {
  std::string lines;     ///< foreign text: see parse_browsed()
  bool complete = true;  ///< false: it had more to say when its time, or room for its lines, was up
};

/// Takes `patience` at most. User errors: the program is not there, or cannot reach its daemon. Board error:
/// no answer at all within that time.
Browsed browse(const std::string& type, std::chrono::milliseconds patience);

}  // namespace gantry::cli
