// -o OUT.gir of the commands that show graphs.
#pragma once

#include <filesystem>

#include "host/cli/invocation.h"
#include "host/graph/graph.h"

namespace gantry::cli {

/// A graph as text, with its weights beside it where they are too large to stand in it.
class GirOutput {
 public:
  /// Checks at once that the text can be written (see OutputPlan::writes).
  GirOutput(std::filesystem::path path, bool force, const Invocation& invocation);

  /// Writes both files and says so on stdout. User errors: of the file of weights as of the text.
  void write(const Graph& graph) const;

 private:
  std::filesystem::path path_;
  bool force_;
  const Invocation& invocation_;
};

}  // namespace gantry::cli
