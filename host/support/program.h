// Programs of this machine that gantry has do things for it, and how it is run itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gantry {

/// Whether a file is there that may be executed.
bool is_program(const std::filesystem::path& path);

/// The first program of that name in the folders of $PATH; none if there is none.
std::optional<std::filesystem::path> find_program(const std::string& name);

/// The words that run this gantry anew, which its arguments follow: the program's file, or those that
/// use_own_command has been given.
std::vector<std::string> own_command();
/// For processes whose program is another one, as Python's interpreter is. None: the program's file. Before
/// anybody asks: it is not guarded.
void use_own_command(std::vector<std::string> words);

/// The folder that holds what was installed or built with this gantry: gantry-device, and above it lib/gantry
/// and share/gantry. The program's own, or the one that use_own_folder has been given.
std::filesystem::path own_folder();
/// For processes whose program is another one. Empty: the program's folder. Before anybody asks: it is not
/// guarded.
void use_own_folder(std::filesystem::path folder);

}  // namespace gantry
