#include "host/cli/prior_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "host/cli/terminal.h"
#include "host/support/error.h"
#include "host/support/mapped_file.h"
#include "host/support/words.h"
#include "host/tune/prior.h"

namespace gantry::cli {

namespace fs = std::filesystem;

std::vector<fs::path> prior_folders(const fs::path& own_folder,
                                    const std::function<void(const std::string&)>& warn) {
  std::vector<fs::path> folders;
  if (const char* given = std::getenv("GANTRY_PRIORS"); given != nullptr && *given != '\0') {
    std::error_code code;
    if (fs::is_directory(given, code)) {
      folders.emplace_back(given);
    } else if (warn) {
      warn(fmt::format("$GANTRY_PRIORS: there is no folder {}", visible_line(given)));
    }
  }
  folders.push_back(own_folder.parent_path() / "share" / "gantry" / "priors");
  return folders;
}

std::optional<FoundPrior> find_prior(const Target& target, const std::vector<fs::path>& folders,
                                     const std::function<void(const std::string&)>& warn) {
  for (const std::string& family : tune::families_of(target)) {
    if (!is_board_word(family)) continue;
    for (const fs::path& folder : folders) {
      const fs::path file = folder / (family + ".json");
      std::error_code code;
      if (!fs::is_regular_file(file, code)) continue;
      try {
        return read_prior(file);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kUser) throw;
        if (warn) warn(error.what());
      }
    }
  }
  return std::nullopt;
}

FoundPrior read_prior(const fs::path& file) {
  const MappedFile text(file);
  return {file, tune::parse_prior({reinterpret_cast<const char*>(text.data()), text.size()}, file.string())};
}

std::string foreign_prior_text(const FoundPrior& found, const Target& target) {
  std::vector<std::string> own = tune::families_of(target);
  std::erase(own, "");
  if (std::ranges::find(own, found.prior.family) != own.end()) return "";
  return fmt::format(
      "{}: is of {}, the target {} of {}; the cost model begins with it all the same, and candidates are "
      "measured, but it may try worse ones first than without (--prior none)",
      found.file.string(), visible_line(found.prior.family), target.name, fmt::join(own, ", "));
}

}  // namespace gantry::cli
