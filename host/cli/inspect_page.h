// What is in a file that has not run, as a page for the browser.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "host/cli/inspect.h"
#include "host/cli/invocation.h"

namespace gantry::cli {

/// The page of a model or module: what `inspect` says of it, and the plan that would run: of a module the one
/// for `target` (empty: its first), of a model what it compiles to for `target` (empty: this machine). A
/// model that gantry cannot compile gets a page without plan, and its problem. User errors: those of
/// inspect_model, inspect_module and of compiling; a target that the module has no code for.
Inspection inspect_page(const std::filesystem::path& path, const InspectOptions& options,
                        const std::string& target, const Invocation& invocation);

}  // namespace gantry::cli
