// Programs of this machine that gantry has do things for it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace gantry {

/// Whether a file is there that may be executed.
bool is_program(const std::filesystem::path& path);

/// The first program of that name in the folders of $PATH; none if there is none.
std::optional<std::filesystem::path> find_program(const std::string& name);

}  // namespace gantry
