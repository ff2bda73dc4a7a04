// Reads the one-line files by which Linux describes the machine (/sys, /proc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gantry::runtime {

/// The first 64 KiB of a file without trailing white space; "" where it cannot be read.
std::string read_small_file(const std::string& path);
/// The decimal number that a file starts with.
std::optional<int64_t> read_small_number(const std::string& path);

}  // namespace gantry::runtime
