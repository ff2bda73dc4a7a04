// A report as one HTML page that needs nothing else: no network, no server, no other file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gantry::cli {

/// The page with that data (report_data). It may only run its own scripts, and may ask the network for
/// nothing (Content-Security-Policy); strings of the data reach it as JSON alone, none as HTML.
std::string report_page(const nlohmann::ordered_json& data);

}  // namespace gantry::cli
