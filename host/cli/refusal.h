// Options that mean nothing beside others are refused, not ignored.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gantry::cli {

/// Options of a command that stood on the command line: "--opt".
using GivenOptions = std::vector<std::string>;
GivenOptions given_options(const CLI::App& command);

bool is_given(const GivenOptions& given, const std::string& option);
/// User error "WHY; leave out --a and --b" if some of `options` were given.
void refuse(const GivenOptions& given, const std::vector<std::string>& options, const std::string& why);

}  // namespace gantry::cli
