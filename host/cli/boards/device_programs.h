// gantry-device for boards: where its programs lie on the workstation, and for which machine they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gantry::cli {

struct DeviceProgram {
  std::filesystem::path path;
  std::string machine;  ///< of its ELF header, as `uname -m` calls it: "x86_64", "aarch64"
  uint64_t bytes = 0;
};

/// Reads a file's ELF header. User errors: it cannot be read, or is no program for 64-bit Linux.
DeviceProgram read_device_program(const std::filesystem::path& path);

/// Where programs for that machine are looked for, seen from the folder of `gantry`, in that order: the
/// installed tree's lib/gantry/devices, beside it, build folders.
std::vector<std::filesystem::path> device_program_places(const std::string& machine,
                                                         const std::filesystem::path& own_folder);

/// The program for a board's machine: `given` (--device-program) or the first of those places that has one
/// for it. `label` is the board in errors. User errors: a machine that gantry does not compile for; a program
/// for another machine; none at all, with where it was looked for.
DeviceProgram find_device_program(const std::string& label, const std::string& machine,
                                  const std::filesystem::path& given,
                                  const std::filesystem::path& own_folder);

}  // namespace gantry::cli
