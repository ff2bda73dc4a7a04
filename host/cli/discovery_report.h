// Boards that were found, beside those that the user has named.
#pragma once

#include <nlohmann/json.hpp>

#include "host/cli/boards_file.h"
#include "host/cli/discovery.h"

namespace gantry::cli {

/// The names under which the boards file has it already: by one of its addresses, or by its host's name with
/// or without the domain, and the port.
std::vector<std::string> names_of(const FoundBoard& board, const BoardsFile& boards);

/// The command that adds each board, "" for one without an address or that the file has already; names
/// differ from each other and from those in the file.
std::vector<std::string> commands_that_add(const std::vector<FoundBoard>& found, const BoardsFile& boards);

/// A table, and under it the commands that add those that the file has not yet; foreign text is visible.
std::string discovery_text(const std::vector<FoundBoard>& found, const BoardsFile& boards, size_t max_width);

/// A list of objects; what a board does not say is null.
nlohmann::ordered_json discovery_json(const std::vector<FoundBoard>& found, const BoardsFile& boards);

}  // namespace gantry::cli
