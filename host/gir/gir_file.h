// Files of graph text (.gir), with the weights that do not stand in them beside them (.gir.weights).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "host/graph/fix_sizes.h"
#include "host/graph/parse.h"

namespace gantry {

struct GirOptions : GivenSizes {
  /// Is told the file of weights before it is read; may throw. May be empty.
  std::function<void(const std::filesystem::path&)> reads;
};

/// Whether a file is graph text: by its name's .gir, or by how it begins. User error if it cannot be read.
bool is_gir_file(const std::filesystem::path& path);

/// Reads a graph as print_program() wrote it, or a person, with the ops of `ops`, that may have been through
/// those of `passes` (graph_pass_names(), which this layer does not know). A model without a name is called
/// as its file, and outputs without names are called as their values. User errors name the text, line and
/// column (see parse_program()), and the file of weights: missing, outside the text's folder, damaged,
/// without a constant, or with one of another type.
Graph read_gir(const std::filesystem::path& path, const OpTable& ops, const std::vector<std::string>& passes,
               const GirOptions& options = {});
/// As read_gir of a text in memory, for which `path` stands in messages and names the folder of its weights.
Graph read_gir_text(std::string_view text, const std::filesystem::path& path, const OpTable& ops,
                    const std::vector<std::string>& passes, const GirOptions& options = {});

/// A graph as files.
struct GirFiles {
  std::string text;
  WeightEntries weights;  ///< what does not stand in the text; none: there is no second file
};
/// The file of weights beside a text: "m.gir.weights".
std::filesystem::path weights_path(const std::filesystem::path& path);
/// The text for `path`, which names weights_path(path) where it needs one.
GirFiles gir_files(const Graph& graph, const OpTable& ops, const std::filesystem::path& path);
/// Writes both; nothing is left half-written. User errors: as OutputFile's; a device or pipe for a text that
/// needs weights beside it.
void write_gir(const GirFiles& files, const std::filesystem::path& path);

}  // namespace gantry
