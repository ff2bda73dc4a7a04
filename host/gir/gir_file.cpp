#include "host/gir/gir_file.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <set>
#include <system_error>

#include "host/gir/safetensors.h"
#include "host/support/error.h"
#include "host/support/input_file.h"
#include "host/support/mapped_file.h"
#include "host/support/output_file.h"
#include "host/support/suggest.h"

namespace gantry {
namespace {

/// The file of weights that a text names.
class FileWeights : public WeightSource {
 public:
  FileWeights(std::filesystem::path folder,
              const std::function<void(const std::filesystem::path&)>& reads)
      : folder_(std::move(folder)), reads_(reads) {}

  void open(const std::string& file) override {
    const auto path = path_inside(folder_, file);
    if (!path)
      user_error("the weights '{}' lie outside the text's folder: put them beside the text", file);
    if (reads_) reads_(*path);
    file_.emplace(*path);
  }

  ConstantPtr find(const std::string& entry, const TensorType& type) override {
    if (!file_) {
      user_error("the text names no file for the constant '{}': it needs a line such as weights "
                 "\"m.gir.weights\" before fn",
                 entry);
    }
    return file_->find(entry, type);
  }

 private:
  std::filesystem::path folder_;
  const std::function<void(const std::filesystem::path&)>& reads_;
  std::optional<Safetensors> file_;
};

/// What --shape and --dim say of a text's symbols.
class SizeFixer {
 public:
  SizeFixer(const GirOptions& options, const std::vector<Value*>& parameters)
      : options_(options), parameters_(parameters) {
    for (const Value* parameter : parameters) {
      for (const Dim& dim : parameter->type.shape) {
        for (std::string& name : dim.symbols()) symbols_.insert(std::move(name));
      }
    }
  }

  std::map<std::string, Dim> run() {
    for (const auto& [name, size] : options_.sizes) fix_named(name, size);
    for (const auto& [name, shape] : options_.shapes) fix_symbols(parameter(name), shape);
    for (const auto& [name, shape] : options_.shapes) check(parameter(name), shape);
    return sizes_;
  }

 private:
  const Value& parameter(const std::string& name) const {
    std::vector<std::string> names;
    for (const Value* each : parameters_) {
      if (each->name == name) return *each;
      names.push_back(each->name);
    }
    user_error("there is no input '{}' to give a shape to; the model's inputs are: {}", name,
               fmt::join(names, ", "));
  }

  void fix(const std::string& symbol, int64_t size) {
    if (size < 0) user_error("the size given for '{}' is negative ({})", symbol, size);
    const auto [known, fresh] = sizes_.try_emplace(symbol, size);
    if (!fresh && !(known->second == Dim(size)))
      user_error("the shapes given make '{}' both {} and {}", symbol, known->second.str(), size);
  }

  void fix_named(const std::string& name, int64_t size) {
    if (symbols_.contains(name)) return fix(name, size);
    user_error("--dim {}={}: the model's inputs have no dimension '{}'; {}", name, size, name,
               symbols_.empty()
                   ? "all are fixed"
                   : fmt::format("those without a fixed size are: {}", fmt::join(symbols_, ", ")));
  }

  void fix_symbols(const Value& input, const std::vector<int64_t>& shape) {
    if (shape.size() != input.type.shape.size()) {
      user_error("the shape given for input '{}' has {} dimensions, but the model's has {}", input.name,
                 shape.size(), input.type.shape.size());
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      const Dim& dim = input.type.shape[i];
      if (shape[i] >= 0 && dim.is_symbol()) fix(dim.str(), shape[i]);
    }
  }

  void check(const Value& input, const std::vector<int64_t>& shape) const {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < 0) continue;
      const Dim dim = input.type.shape[i].substitute(sizes_);
      if (!dim.is_constant()) {
        user_error("the shape given for input '{}' has {} at axis {}, which is {} in the model: fix {} with "
                   "--dim instead",
                   input.name, shape[i], i, dim.str(), fmt::join(dim.symbols(), " and "));
      }
      if (dim == Dim(shape[i])) continue;
      user_error("the shape given for input '{}' has {} at axis {}, but the model fixes it to {}", input.name,
                 shape[i], i, dim.str());
    }
  }

  const GirOptions& options_;
  const std::vector<Value*>& parameters_;
  std::set<std::string> symbols_;
  std::map<std::string, Dim> sizes_;
};

}  // namespace

bool is_gir_file(const std::filesystem::path& path) {
  if (path.extension() == ".gir") return true;
  constexpr size_t kBeginning = 4096;
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path, errno);
  std::string start(kBeginning, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(file.gcount()));
  return is_graph_text(start);
}

Graph read_gir_text(std::string_view text, const std::filesystem::path& path, const OpTable& ops,
                    const GirOptions& options) {
  FileWeights weights(path.parent_path(), options.reads);
  ProgramSource source;
  source.name = path.string();
  source.weights = &weights;
  source.fix_sizes = [&](const std::vector<Value*>& parameters) {
    return SizeFixer(options, parameters).run();
  };
  Graph graph = parse_program(text, ops, source);
  if (graph.model_name.empty()) graph.model_name = path.stem().string();
  return graph;
}

Graph read_gir(const std::filesystem::path& path, const OpTable& ops, const GirOptions& options) {
  const MappedFile file(path);
  return read_gir_text({file.data(), file.size()}, path, ops, options);
}

std::filesystem::path weights_path(const std::filesystem::path& path) {
  return path.string() + ".weights";
}

GirFiles gir_files(const Graph& graph, const OpTable& ops, const std::filesystem::path& path) {
  GirFiles files;
  files.text = print_program(graph, ops, weights_path(path).filename().string(), files.weights);
  return files;
}

void write_gir(const GirFiles& files, const std::filesystem::path& path) {
  using Kind = OutputTarget::Kind;
  const Kind kind = find_output_target(path).kind;
  if (!files.weights.empty() && (kind == Kind::kDevice || kind == Kind::kDescriptor)) {
    user_error("{}: has no place for weights beside it, of which there are {}; give a file", path.string(),
               files.weights.size());
  }
  OutputFile text(path);
  text.write(files.text);
  if (!files.weights.empty()) {
    const SafetensorsLayout layout = safetensors_layout(files.weights);
    OutputFile weights(weights_path(path));
    weights.write(layout.head);
    for (const ConstantPtr& tensor : layout.tensors) weights.write(tensor->bytes, tensor->size);
    weights.commit();
  }
  text.commit();
}

}  // namespace gantry
