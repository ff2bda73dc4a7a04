// Ops that the user brings: what is said of them, and their code or composition. docs/custom-ops.md has the
// description's form; a folder with an ops.toml and the files that it names, or a shared library that holds
// both, is a collection.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/custom_ops/signature.h"
#include "host/graph/graph.h"

namespace gantry {

/// IR text that stands for an op, with $NAME for attributes and $NAME.type for inputs (composition.h).
struct Composition {
  std::string file;  ///< for messages
  std::string text;
};

/// Has either a kernel or compositions.
struct CustomOp {
  std::string domain, name;
  int64_t since = 1;   ///< first version of the domain's opset that it follows
  std::string source;  ///< for messages: the description that it comes from
  Signature signature;
  std::shared_ptr<const CustomKernel> kernel;
  std::vector<Composition> compositions;  ///< the first whose parameters a node's inputs are is taken

  /// "my.domain::MyOp"
  std::string full_name() const { return domain + "::" + name; }
};

/// Gives the bytes of a file that a description names. Throws a user error if there is none of that name.
using ReadFile = std::function<std::string(const std::string& name)>;

/// The ops of a description. User errors name `source`, the op, and what is wrong.
std::vector<CustomOp> parse_custom_ops(std::string_view toml, const std::string& source,
                                       const ReadFile& read);

class CustomOps {
 public:
  /// Reads collections: folders, and shared libraries, which are loaded into this process for it. User
  /// errors: a path that is neither; those of parse_custom_ops; an op that two of them have. `passes` are
  /// those that compositions may say they have been through (graph_pass_names(), which this layer does not
  /// know). `reads` is told each file before it is read.
  static std::shared_ptr<const CustomOps> load(
      const std::vector<std::string>& paths, std::vector<std::string> passes,
      const std::function<void(const std::filesystem::path&)>& reads = {});
  /// Of ops made otherwise.
  CustomOps(std::vector<CustomOp> ops, std::vector<std::string> passes);

  /// The newest not above that version of the domain's opset; null if there is none.
  const CustomOp* find(std::string_view domain, std::string_view name, int64_t version) const;
  const std::vector<CustomOp>& all() const { return ops_; }
  /// Names of passes that compositions may have been through.
  const std::vector<std::string>& passes() const { return passes_; }

 private:
  std::vector<CustomOp> ops_;
  std::vector<std::string> passes_;
};

/// Finds the kernels of a graph's custom nodes, which text only names. User errors name the node: an op that
/// `ops` (may be null) has not, and one whose code is another than the text was written with.
void bind_custom_ops(Graph& graph, const CustomOps* ops);

}  // namespace gantry
