#include "host/cli/boards/device_programs.h"

#include <elf.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "host/cli/terminal.h"
#include "host/codegen/host_cpu.h"
#include "host/machine/cpu_family.h"
#include "host/support/error.h"
#include "host/support/input_file.h"

namespace gantry::cli {
namespace {

std::string machine_name(uint16_t machine) {
  const auto families = cpu_families();
  const auto found = std::ranges::find(families, machine, &CpuFamily::elf_machine);
  return found == families.end() ? fmt::format("ELF machine {}", machine) : std::string((*found)->name);
}

}  // namespace

DeviceProgram read_device_program(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) user_error("{}: is a folder, not a program", path.string());
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path, errno);
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  const bool elf = file.gcount() == sizeof header && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
  if (!elf || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      (header.e_type != ET_EXEC && header.e_type != ET_DYN))
    user_error("{}: is no program for 64-bit Linux; gantry-device is one", path.string());
  const uint64_t bytes = std::filesystem::file_size(path, code);
  if (code) user_error("{}: {}", path.string(), code.message());
  return {path, machine_name(header.e_machine), bytes};
}

std::vector<std::filesystem::path> device_program_places(const std::string& machine,
                                                         const std::filesystem::path& own_folder) {
  const std::filesystem::path prefix = own_folder.parent_path();
  return {prefix / "lib" / "gantry" / "devices" / ("gantry-device-" + machine), own_folder / "gantry-device",
          prefix.parent_path() / ("build-" + machine) / "bin" / "gantry-device",
          prefix.parent_path() / "build" / "bin" / "gantry-device"};
}

DeviceProgram find_device_program(const std::string& label, const std::string& machine,
                                  const std::filesystem::path& given,
                                  const std::filesystem::path& own_folder) {
  if (find_family(machine) == nullptr) {
    std::vector<std::string_view> known;
    for (const CpuFamily* family : cpu_families()) known.push_back(family->name);
    user_error("{}: is a machine of kind '{}'; gantry compiles for {}", label, visible_line(machine),
               fmt::join(known, " and "));
  }
  if (!given.empty()) {
    const DeviceProgram program = read_device_program(given);
    if (program.machine != machine) {
      user_error("{}: is a program for {}, but {} is an {} machine", given.string(), program.machine, label,
                 machine);
    }
    return program;
  }
  std::string looked;
  for (const std::filesystem::path& place : device_program_places(machine, own_folder)) {
    std::error_code code;
    looked += "\n  " + place.string() + ": ";
    if (!std::filesystem::exists(place, code)) {
      looked += "is not there";
      continue;
    }
    const DeviceProgram program = read_device_program(place);
    if (program.machine == machine) return program;
    looked += "is for " + program.machine;
  }
  user_error(
      "{}: there is no gantry-device for {} here; name one with --device-program, or build it (cmake "
      "--preset {}). "
      "Looked for:{}",
      label, machine, machine == host_cpu().family->name ? "release" : machine, looked);
}

}  // namespace gantry::cli
