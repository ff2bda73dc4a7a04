// What the page of `gantry report` shows.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gantry::cli {

/// The most results that one page compares.
inline constexpr size_t kMostResults = 20;

/// The documents of these results of bench, in their order, and what every two of them tell against each
/// other; or of one document of compare alone what it says, and the results of its sides. For report_page.
/// User errors name the file and the field: no such document, of a version that this gantry does not read, or
/// damaged. `names`: what the page calls the results, where that is not their files.
nlohmann::ordered_json report_data(const std::vector<std::string>& files, const std::string& gantry_version,
                                   const std::vector<std::string>& names = {});

/// What every page has: the program's version, and what fields mean.
nlohmann::ordered_json page_basics(const std::string& gantry_version);

}  // namespace gantry::cli
