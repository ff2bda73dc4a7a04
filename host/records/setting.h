// The setting of a target, a machine and options.
#pragma once

#include <string>
#include <string_view>

#include "host/records/record.h"

namespace gantry {
struct Target;  // host/machine/target.h
}

namespace gantry::records {

/// `target` in the precision that it computes in (with_precision); `machine`: the processor as it calls
/// itself (BoardInfo::cpu; of a GPU's target the GPU's name), or empty, and `threads` 0, where it is not
/// known on what the module will run: then the setting only asks (best_of), no record has it. `optimize`: as
/// --optimize names it. The generator is this program's.
Setting setting_of(const Target& target, std::string machine, int threads, std::string_view optimize);

}  // namespace gantry::records
