// Quantities on the command line: "1%", "30s".
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gantry::cli {

/// "1%" or "0.01", above 0 and below `most`. User error quotes the option and the text.
double parse_share(const std::string& text, const std::string& option, double most = 1);
/// Seconds: "30s", "500ms", "2min", "1h" or "30", above 0 and at most a week. User error quotes the option
/// and the text.
double parse_duration(const std::string& text, const std::string& option);

/// Options whose text is converted while the command line is parsed, so that what is wrong is said at once.
CLI::Option* add_share(CLI::App& command, const std::string& option, double& share,
                       const std::string& description);
/// A share that may lie above 1: how much slower, say. None where it is not given.
CLI::Option* add_limit(CLI::App& command, const std::string& option, std::optional<double>& limit,
                       const std::string& description);
CLI::Option* add_duration(CLI::App& command, const std::string& option, double& seconds,
                          const std::string& description);

}  // namespace gantry::cli
