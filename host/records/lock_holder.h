// Who holds a file that is locked.
#pragma once

#include <string>

namespace gantry::records {

/// " by process 1234 (gantry)" of another process that has locked the file for writing, as Linux lists it;
/// empty where it shows none: on another machine, or in another container.
std::string lock_holder(const std::string& path);

}  // namespace gantry::records
