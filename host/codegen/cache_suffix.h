// Sizes of caches in targets' names, for chips whose core is a known one and whose caches are not:
// "cortex-a76+l2=256K".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "host/machine/machine_model.h"

namespace gantry {

/// What a name states, in bytes of one core.
struct StatedCaches {
  std::optional<int64_t> l1_bytes, l2_bytes;
};

/// Takes "l1=SIZE" or "l2=SIZE" off the front of what follows a '+' in the target's name `whole`; false, and
/// nothing taken, where it begins with neither. A size is a whole number with K (KiB) or M (MiB). A user
/// error: it is not; it is no cache's (the first level has 8K to 1M, the second 64K to 1024M); or the level
/// was stated before.
bool take_cache_size(std::string_view& suffixes, std::string_view whole, StatedCaches& stated);

/// Puts them in place of the model's own. A user error: the second level is the smaller one.
void set_stated_caches(MachineModel& machine, const StatedCaches& stated, std::string_view whole);

/// The suffixes that state where `machine` has other caches than `usual`.
std::string cache_suffixes(const MachineModel& machine, const MachineModel& usual);

}  // namespace gantry
