// Links relocatable objects to a shared object with LLD, in this process.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "host/machine/target.h"

namespace gantry {

/// An ELF shared object that exports the objects' global functions and imports nothing.
/// Errors: an internal error quotes LLD (undefined symbols among them); a user error if the system refuses
/// memory. Nothing is written to a disk.
std::vector<std::byte> link_image(const std::vector<std::string>& objects, const Target& target);
/// As link_image; where `foreign` is not empty it names what of the objects users made, and errors are theirs.
std::vector<std::byte> link_image(const std::vector<std::string>& objects, const Target& target,
                                  const std::string& foreign);
/// Objects and archives, in their order, as one relocatable object; of archives what defines `function` and what that
/// needs. Empty where they cannot be linked: `messages` says why.
std::string link_relocatable(const std::vector<std::string>& files, const std::string& function, const Target& target,
                             std::string& messages);

}  // namespace gantry
