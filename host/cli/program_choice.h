// Of the programs that a module has for a target, the one that runs.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace gantry::cli {

/// Which of the programs that a module has for a target runs for inputs of some shapes.
struct ProgramChoice {
  /// The sizes for which alone it is, as `--specialize` takes them: "N=1,length=128", of equal sizes
  /// "masks=batch"; empty: it is the one for all sizes.
  std::string sizes;
  size_t specialized = 0;  ///< programs for some sizes alone that there are, beside the one for all
  size_t variant = 0;      ///< its place among the module's variants
};

/// "for N=1 alone", "for all sizes"; empty where there is one program only.
inline std::string program_text(const ProgramChoice& choice) {
  if (choice.specialized == 0) return "";
  return choice.sizes.empty() ? "for all sizes" : fmt::format("for {} alone", choice.sizes);
}

}  // namespace gantry::cli
