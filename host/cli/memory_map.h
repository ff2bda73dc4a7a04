// A planned memory as a map: what lies where, from which step to which.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/program_facts.h"
#include "host/graph/dim.h"
#include "module_generated.h"

namespace gantry::cli {

struct MemoryMap {
  struct Value {
    std::string name;
    Dim offset, bytes;
    size_t first = 0, last = 0;  ///< steps, both included
  };
  std::string memory = "workspace";  ///< or "GPU workspace"
  std::vector<Value> values;         ///< by offset, then by time
  size_t steps = 0;                  ///< of the plan
  Dim bytes;                         ///< planned
  /// What lives at once at most: no plan of these steps takes less. None: sizes have too many symbols to say
  /// it.
  std::optional<Dim> bound;

  /// Planned bytes over the bound; 1 where nothing is needed, 0 where it depends on symbols.
  double ratio() const;
};

/// The variant's planned memories, without those of which it needs nothing. `facts`: of that variant.
std::vector<MemoryMap> memory_maps(const module_format::Manifest& manifest,
                                   const module_format::Variant& variant, const ProgramFacts& facts);

/// A line a value: offset, bytes and steps in figures, and its steps as a bar. `width` of the terminal; 0:
/// unlimited.
std::string to_text(const MemoryMap& map, size_t width);
nlohmann::ordered_json to_json(const MemoryMap& map);

}  // namespace gantry::cli
