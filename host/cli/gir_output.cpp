#include "host/cli/gir_output.h"

#include "host/cli/text.h"
#include "host/gir/gir_file.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"

namespace gantry::cli {
namespace {

std::string file_text(const std::filesystem::path& path, uint64_t bytes) {
  return fmt::format("{}: {}", path.string(), bytes_text(static_cast<double>(bytes)));
}

}  // namespace

GirOutput::GirOutput(std::filesystem::path path, bool force, const Invocation& invocation)
    : path_(std::move(path)), force_(force), invocation_(invocation) {
  invocation_.outputs->writes(path_, FileKind::kGraphText, "-o", force_);
}

void GirOutput::write(const Graph& graph) const {
  const GirFiles files = gir_files(graph, FusedOpTable(op_set()), path_);
  std::string written = file_text(path_, files.text.size());
  if (!files.weights.empty()) {
    const std::filesystem::path weights = weights_path(path_);
    invocation_.outputs->writes(weights, FileKind::kWeights, "-o", force_);
    uint64_t bytes = 0;
    for (const auto& [entry, constant] : files.weights) bytes += constant->size;
    written += ", " + file_text(weights, bytes);
  }
  write_gir(files, path_);
  if (!invocation_.quiet) print_about(*invocation_.outputs, written + "\n");
}

}  // namespace gantry::cli
