// Links relocatable objects to a shared object with LLD, in this process.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "host/codegen/target.h"

namespace gantry {

/// An ELF shared object that exports the objects' global functions and imports nothing.
/// Errors: an internal error quotes LLD (undefined symbols among them); a user error if the system refuses
/// memory. Nothing is written to a disk.
std::vector<std::byte> link_image(const std::vector<std::string>& objects, const Target& target);

}  // namespace gantry
