#include "host/gir/gir_file.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
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

std::map<std::string, Dim> sizes_of(const GivenSizes& given, const std::vector<Value*>& parameters) {
  std::vector<OpenInput> inputs;
  for (const Value* parameter : parameters) inputs.push_back({parameter->name, parameter->type.shape});
  return size_bindings(given_sizes(given, inputs));
}

/// Outputs without names of their own are called as their values are, whatever values passes put in their
/// place: one that takes that of two outputs has one name.
void name_outputs(Function& main) {
  if (!main.output_names.empty()) return;
  for (const Value* output : main.outputs) main.output_names.push_back(output->name);
}

}  // namespace

bool is_gir_file(const std::filesystem::path& path) {
  if (path.extension() == ".gir") return true;
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return false;
  constexpr size_t kBeginning = 4096;
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path, errno);
  std::string start(kBeginning, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(file.gcount()));
  return is_graph_text(start);
}

Graph read_gir_text(std::string_view text, const std::filesystem::path& path, const OpTable& ops,
                    const std::vector<std::string>& passes, const GirOptions& options) {
  FileWeights weights(path.parent_path(), options.reads);
  ProgramSource source;
  source.name = path.string();
  source.weights = &weights;
  source.fix_sizes = [&](const std::vector<Value*>& parameters) {
    return sizes_of(options, parameters);
  };
  Graph graph = parse_program(text, ops, passes, source);
  if (graph.model_name.empty()) graph.model_name = path.stem().string();
  name_outputs(graph.main);
  return graph;
}

Graph read_gir(const std::filesystem::path& path, const OpTable& ops, const std::vector<std::string>& passes,
               const GirOptions& options) {
  const MappedFile file(path);
  return read_gir_text({file.data(), file.size()}, path, ops, passes, options);
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
    text.flush();  // so that a full disk leaves no new weights beside an old text
    const SafetensorsLayout layout = safetensors_layout(files.weights);
    OutputFile weights(weights_path(path));
    weights.write(layout.head);
    for (const ConstantPtr& tensor : layout.tensors) weights.write(tensor->bytes, tensor->size);
    weights.commit();
  }
  text.commit();
}

}  // namespace gantry
