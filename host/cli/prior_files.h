// Where a tuner's cost model finds what was measured of a family of CPUs before.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/machine/target.h"
#include "host/tune/prior_file.h"

namespace gantry::cli {

struct FoundPrior {
  std::filesystem::path file;
  tune::PriorFile prior;
};

/// $GANTRY_PRIORS, if that is set, which is warned of where it is no folder; the folder that is installed
/// with the program in `own_folder`, or built.
std::vector<std::filesystem::path> prior_folders(const std::filesystem::path& own_folder,
                                                 const std::function<void(const std::string&)>& warn);

/// FAMILY.json of the first family (tune::families_of) that one of the folders has, in their order; one that
/// cannot be read is warned of, and the next one is taken. None where there is none.
std::optional<FoundPrior> find_prior(const Target& target, const std::vector<std::filesystem::path>& folders,
                                     const std::function<void(const std::string&)>& warn);

/// User errors name the file.
FoundPrior read_prior(const std::filesystem::path& file);

/// What to warn of where the prior is of none of the target's families; empty: it is of one.
std::string foreign_prior_text(const FoundPrior& found, const Target& target);

}  // namespace gantry::cli
