// Caches of CPUs, as the machine models take them.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "host/machine/target.h"

namespace gantry {

/// Of one core, from the vendors' manuals. A name covers all that begin with it.
struct CacheSizes {
  std::string_view cpu;
  int l1_kib, l2_kib;
};

/// Those of the first entry that covers `cpu`, if one does.
inline void set_caches(MachineModel& machine, std::span<const CacheSizes> known, std::string_view cpu) {
  const auto found = std::ranges::find_if(known, [&](const CacheSizes& c) { return cpu.starts_with(c.cpu); });
  if (found == known.end()) return;
  machine.l1_bytes = int64_t{found->l1_kib} << 10;
  machine.l2_bytes = int64_t{found->l2_kib} << 10;
}

}  // namespace gantry
