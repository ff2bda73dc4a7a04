// The two formats of traces.
#pragma once

#include <string>

#include "host/trace/trace.h"

namespace gantry {

/// Messages of host/trace/perfetto.proto.
std::string encode_perfetto(const Trace& trace);
/// The object form of Chrome's Trace Event Format: complete events ("X"), counters ("C"), names ("M").
std::string encode_chrome(const Trace& trace);

}  // namespace gantry
