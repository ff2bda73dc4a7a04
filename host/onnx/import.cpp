// Reading model files, and the course of an import.
#include "host/onnx/import.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>
#ifndef GANTRY_NO_ONNX_CHECKER
#include <onnx/checker.h>
#endif

#include <algorithm>
#include <climits>

#include "host/graph/late_values.h"
#include "host/onnx/converters.h"
#include "host/onnx/declared_dim.h"
#include "host/onnx/function_bodies.h"
#include "host/onnx/importer.h"
#include "host/onnx/lean_model.h"
#include "host/onnx/malformed.h"
#include "host/onnx/node_reads.h"
#include "host/onnx/op_arity.h"
#include "host/onnx/size_advice.h"
#include "host/onnx/sparse_tensor.h"
#include "host/ops/builder.h"
#include "host/ops/elementwise.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// True if the bytes begin like a ModelProto: with a field number and wire type that it has.
bool begins_like_a_model(std::string_view bytes) {
  static constexpr unsigned char kTags[] = {0x08, 0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72};
  return !bytes.empty() && std::find(std::begin(kTags), std::end(kTags),
                                     static_cast<unsigned char>(bytes[0])) != std::end(kTags);
}

using ModelPtr = std::shared_ptr<onnx::ModelProto>;

/// What a message calls an initialiser.
std::string initializer_text(const std::string& name) {
  return fmt::format("initialiser '{}'", name);
}

[[noreturn]] void refuse(std::string_view begin, const std::string& name) {
  if (begin.empty()) user_error("{} is not an ONNX file: it is empty", name);
  if (!begins_like_a_model(begin)) user_error("{} is not an ONNX file", name);
  user_error(
      "{} is truncated or damaged: it begins like an ONNX model, but does not end like one; "
      "copy or export it again",
      name);
}

/// `begin`: the first bytes of all that `stream` gives, less than 2 GB.
ModelPtr parse_model(google::protobuf::io::ZeroCopyInputStream& stream, std::string_view begin,
                     const std::string& name) {
  if (begin.empty()) refuse(begin, name);
  auto model = std::make_shared<onnx::ModelProto>();
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(INT_MAX);
  if (!model->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage()) refuse(begin, name);
  if (!model->has_graph()) user_error("{} is not an ONNX file", name);
  return model;
}

ModelPtr parse_bytes(std::string_view bytes, const std::string& name) {
  if (bytes.size() > static_cast<size_t>(INT_MAX))
    user_error("{} is larger than 2 GB, which ONNX allows only with external data", name);
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return parse_model(stream, bytes, name);
}

ModelPtr parse_file(const InputFile& file, const LeanModel& lean, const std::string& name) {
  const std::string begin = file.begin(1);
  if (lean.size > static_cast<uint64_t>(INT_MAX)) {
    if (!lean.sound) refuse(begin, name);
    user_error("{} has more than 2 GB that are not raw data of tensors; save it with external data", name);
  }
  LeanStream bytes(file, lean);
  google::protobuf::io::CopyingInputStreamAdaptor stream(&bytes, 1 << 20);
  return parse_model(stream, begin, name);
}

/// What is imported.
struct Source {
  std::function<ModelPtr()> load;  ///< the model anew: an import takes its weights
  std::string name;
  DataFolder directory;
  std::shared_ptr<RawData> raw_data;  ///< that the model refers to; null: it refers to nothing

  Importer importer(const ImportOptions& options, Assumptions assumptions = {}) const {
    return {load(), directory, raw_data, options, std::move(assumptions)};
  }
};

/// The sizes that would do, in front of the error that those given lead to; empty if they are not to blame.
std::string better_sizes(const Source& source, const ImportOptions& options,
                         const std::map<std::string, GivenSize>& given) {
  std::map<std::string, int64_t> sizes;
  for (const auto& [symbol, size] : given) {
    if (size.fixed()) sizes.emplace(symbol, size.range.low);
  }
  if (sizes.empty()) return "";
  ImportOptions symbolic = options;
  symbolic.shapes.clear();
  symbolic.sizes.clear();
  symbolic.warn = nullptr;
  try {
    return size_advice(source.importer(symbolic).import().main, sizes);
  } catch (const Error&) {
    return "";  // it fails with any
  }
}

/// What an import tells while it runs, kept until it is known to be the one that counts.
class HeardLater {
 public:
  /// `options` with listeners that keep what they hear.
  ImportOptions listening(const ImportOptions& options) {
    ImportOptions later = options;
    if (options.warn)
      later.warn = [this, tell = options.warn](const std::string& text) {
        told_.push_back([=] { tell(text); });
      };
    if (options.on_node)
      later.on_node = [this, tell = options.on_node](const std::string& name, const std::string& op) {
        told_.push_back([=] { tell(name, op); });
      };
    return later;
  }
  void tell() const {
    for (const auto& each : told_) each();
  }

 private:
  std::vector<std::function<void()>> told_;
};

/// Why a model is not imported.
struct Refusal {
  explicit Refusal(const Error& error) : kind(error.kind()), what(error.what()) {
    if (const auto* model = dynamic_cast<const UnsupportedModel*>(&error)) unsupported = model->features();
  }
  ErrorKind kind;
  std::string what;
  std::optional<std::vector<UnsupportedFeature>> unsupported = {};
};

/// `first`, with all wrong nodes of branches and bodies, of which the import that failed has named the first.
Refusal whole_refusal(const Source& source, const ImportOptions& options, std::vector<bool> answers,
                      Refusal first) {
  ImportOptions silent = options;
  silent.warn = nullptr;
  silent.on_node = nullptr;
  Importer importer = source.importer(silent, Assumptions(std::move(answers)));
  importer.name_all_wrong_nodes();
  try {
    importer.import();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUser) return Refusal(error);
  }
  return first;
}

[[noreturn]] void throw_refusal(const Source& source, const ImportOptions& options,
                                const std::map<std::string, GivenSize>& given, const Refusal& refusal) {
  if (refusal.unsupported)
    throw UnsupportedModel(*refusal.unsupported, fmt::format("{}: {}", source.name, refusal.what));
  const std::string advice = better_sizes(source, options, given);
  throw Error(refusal.kind,
              fmt::format("{}: {}{}{}", source.name, advice, advice.empty() ? "" : "\n", refusal.what));
}

Attempt attempt_import(const Source& source, const ImportOptions& options, std::vector<bool> answers) {
  const auto heard = std::make_shared<HeardLater>();
  const ImportOptions listening = heard->listening(options);
  Importer importer = source.importer(listening, Assumptions(std::move(answers)));
  Attempt attempt;
  try {
    attempt.graph = importer.import();
    attempt.contradictions = importer.contradicted_outputs() + broken_constraints(attempt.graph->main);
    attempt.conclude = [heard] { heard->tell(); };
  } catch (const Error& error) {
    attempt.conclude = [=, &source, &options, given = importer.given_sizes(), refusal = Refusal(error),
                        answered = importer.assumptions().answers(), more = importer.wrong_in_bodies()] {
      heard->tell();
      throw_refusal(source, options, given,
                    more ? whole_refusal(source, options, answered, refusal) : refusal);
    };
  }
  attempt.answers = importer.assumptions().answers();
  return attempt;
}

Graph import_model(const Source& source, const ImportOptions& options) {
  Attempt best = best_attempt(
      [&](std::vector<bool> answers) { return attempt_import(source, options, std::move(answers)); });
  best.conclude();
  return std::move(*best.graph);
}

}  // namespace

Graph import_onnx(const std::filesystem::path& path, const ImportOptions& options) {
  const auto file = std::make_shared<const InputFile>(path);
  const LeanModel lean = lean_model(*file);
  const auto load = [&] { return parse_file(*file, lean, path.string()); };
  const auto raw_data = std::make_shared<RawData>(file, lean.raw_data, options.spill);
  Graph graph = import_model({load, path.string(), folder_of(path), raw_data}, options);
  if (graph.model_name.empty()) graph.model_name = path.stem().string();
  return graph;
}

Graph import_onnx_bytes(std::string_view bytes, const std::filesystem::path& base,
                        const ImportOptions& options) {
  const auto load = [&] { return parse_bytes(bytes, "the model"); };
  return import_model({load, "the model", base, nullptr}, options);
}

Importer::Importer(std::shared_ptr<onnx::ModelProto> model, DataFolder directory,
                   std::shared_ptr<RawData> raw_data, const ImportOptions& options, Assumptions assumptions)
    : model_(model),
      options_(options),
      bodies_(std::make_shared<FunctionBodies>(model)),
      tensors_(bodies_, std::move(directory), options.reads, std::move(raw_data)),
      assumptions_(std::move(assumptions)),
      constant_budget_(options.constant_budget) {}

Graph Importer::import() {
  read_opsets();
  check_with_onnx();
  check_custom_ops();
  try {
    return import_supported();
  } catch (const UnsupportedModel&) {
    throw;
  } catch (const Error& malformed) {
    if (malformed.kind() == ErrorKind::kUser) throw_unsupported(malformed.what());
    throw;
  }
}

Graph Importer::import_supported() {
  const onnx::GraphProto& graph = model_->graph();
  graph_.model_name = graph.name();
  open_.push_back({&graph_.main, 0, {}, {}});
  scopes_.emplace_back();
  declared_ranks_.add(graph);
  take_initializers(*model_->mutable_graph());
  add_inputs(graph);
  convert_nodes(graph);
  add_outputs(graph);
  throw_unsupported("");
  graph_.main.drop_unused_constants();
  return std::move(graph_);
}

void Importer::read_opsets() {
  for (const auto& import : model_->opset_import()) {
    if (is_default_domain(import.domain()))
      opset_ = std::max<int64_t>(opset_, import.version());
    else
      opsets_[import.domain()] = import.version();
  }
  if (opset_ == 0) opset_ = 1;  // files before IR version 3 do not say
  if (opset_ > kNewestOpset && options_.warn) {
    options_.warn(
        fmt::format("the model uses opset {}; gantry knows definitions up to {}", opset_, kNewestOpset));
  }
}

void Importer::check_with_onnx() const {
#ifndef GANTRY_NO_ONNX_CHECKER
  if (!options_.warn || model_->ir_version() > 8 || model_->ir_version() < 3 || opset_ > 17) return;
  try {
    const CheckableModel checkable(*model_);
    onnx::checker::check_model(*model_);
  } catch (const std::exception& error) {
    options_.warn(fmt::format("the onnx checker complains: {}", error.what()));
  }
#endif
}

// --- names

Binding& Importer::lookup(const std::string& name, const std::string& reader) {
  for (size_t scope = scopes_.size(); scope-- > 0;) {
    auto it = scopes_[scope].find(name);
    if (it == scopes_[scope].end()) continue;
    if (!it->second.missing.empty()) {
      unsupported_.add_node(UnsupportedKind::kOutput, it->second.missing, it->second.missing_of);
      it->second.unknown = true;
      it->second.missing.clear();
    }
    if (it->second.unknown) throw ReadsUnknown{};
    return scope >= open_.back().first_scope ? it->second : capture(it->second, scope, name);
  }
  throw BrokenModel(fmt::format("{} uses '{}', which nothing before it defines", reader, name));
}

void Importer::define(const std::string& name, Binding binding, const std::string& definer) {
  bool fresh = scopes_.back().emplace(name, std::move(binding)).second;
  if (!fresh) throw BrokenModel(fmt::format("{} defines '{}', which is defined already", definer, name));
}

Value* Importer::materialise(Binding& binding, const std::string& name) {
  if (binding.value) return binding.value;
  Function& f = function();
  if (!binding.constant && binding.contents) binding.constant = constant_of(*binding.contents);
  if (binding.constant) {
    binding.value = f.add_constant(name, binding.constant);
    return binding.value;
  }
  internal_check(binding.contents.has_value(), "'{}' has neither data nor known contents", name);
  return binding.value = dims_as_data(*binding.contents, name);
}

void Importer::add_sparse_initializers(const onnx::GraphProto& graph, bool may_stay_open) {
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) {
    if (&graph == &model_->graph() && kept_inputs_.count(tensor.values().name()) != 0) continue;
    add_initializer(tensor.values().name(), may_stay_open,
                    [&](const std::string& what) { return dense_tensor(tensors_, tensor, what); });
  }
}

void Importer::keep_inputs(const onnx::GraphProto& graph) {
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (options_.kept_inputs.count(input.name()) != 0) kept_inputs_.insert(input.name());
  }
}

void Importer::take_initializers(onnx::GraphProto& graph) {
  keep_inputs(graph);
  add_sparse_initializers(graph, !options_.freeze);
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) {
    if (kept_inputs_.count(tensor.name()) != 0) continue;
    add_initializer(tensor.name(), !options_.freeze,
                    [&](const std::string& what) { return tensors_.take(tensor, what); });
  }
}

void Importer::add_initializers(const onnx::GraphProto& graph) {
  add_sparse_initializers(graph, false);
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    add_initializer(tensor.name(), false,
                    [&](const std::string& what) { return tensors_.read(tensor, what); });
  }
}

void Importer::add_initializer(const std::string& name, bool may_stay_open,
                               const std::function<ConstantPtr(const std::string& what)>& read) {
  const std::string what = initializer_text(name);
  Binding binding;
  if (!collect(what, [&] { binding.constant = read(what); })) return define_unknown(name, "an initialiser");
  // Small integer tensors steer shapes, so they are never left open.
  if (may_stay_open && !contents_of(*binding.constant)) {
    binding.value = graph_.main.add_parameter(name, binding.constant->type);
    binding.constant = nullptr;
  }
  define(name, std::move(binding), "an initialiser");
}

// --- outputs

void Importer::check_declared(const onnx::ValueInfoProto& output, const Value& value) {
  if (!output.type().has_tensor_type()) return;
  const TensorType& type = value.type;
  const auto& declared = output.type().tensor_type();
  if (declared.elem_type() != 0 && dtype_of(declared.elem_type(), "output") != type.dtype) {
    user_error("output '{}' is declared with another dtype than the {} that the model computes",
               output.name(), name_of(type.dtype));
  }
  if (declared.has_shape() && declared.shape().dim_size() != type.rank()) ++contradicted_outputs_;
  // What the user fixed, the model could not know.
  const bool fixed = !given_sizes_.empty() || !options_.shapes.empty();
  if (!options_.warn || !declared.has_shape() || fixed || may_be(declared.shape(), type.shape)) return;
  // Not an error: exporters write what onnx's shape inference said, which counts a window too many for pooling
  // with ceil_mode where the last one would lie in the padding.
  const bool computed = value.producer != nullptr && !value.producer->origin.empty();
  options_.warn(fmt::format("output '{}' is declared with the shape {}, but {} computes {}: that is what it has",
                            output.name(), shape_text(declared.shape()),
                            computed ? fmt::format("node {}", value.producer->origin.back()) : "the model",
                            type.str()));
}

void Importer::add_outputs(const onnx::GraphProto& graph) {
  if (graph.output_size() == 0) user_error("the model has no outputs");
  std::set<std::string> met, taken;
  for (const onnx::ValueInfoProto& output : graph.output()) taken.insert(output.name());
  for (const onnx::ValueInfoProto& output : graph.output()) {
    onnx::ValueInfoProto named = output;
    // A model may list one tensor several times; those of a module are told apart by their names.
    if (!met.insert(output.name()).second) {
      for (int i = 2; !taken.insert(named.name()).second; ++i)
        named.set_name(fmt::format("{}#{}", output.name(), i));
      warn(fmt::format("the model lists the output '{}' again: here that is called '{}'", output.name(),
                       named.name()));
    }
    try {
      add_output_of(lookup(output.name(), "the model's output"), named);
    } catch (const ReadsUnknown&) {
      continue;
    }
  }
}

void Importer::add_output_of(Binding& binding, const onnx::ValueInfoProto& output) {
  if (binding.absent) return;
  if (binding.has_value != nullptr) add_output(binding.has_value, late_presence_name(output.name()));
  if (binding.late) {
    add_output(binding.late->elements, late_elements_name(output.name()));
    add_output(binding.late->dims, late_dims_name(output.name()));
  } else if (binding.sequence) {
    for (size_t i = 0; i < binding.sequence->size(); ++i) {
      Binding element = (*binding.sequence)[i];
      add_output(element, element_name(output.name(), i), nullptr);
    }
  } else {
    add_output(binding, output.name(), binding.has_value == nullptr ? &output : nullptr);
  }
}

void Importer::add_output(Binding& binding, const std::string& name, const onnx::ValueInfoProto* declared) {
  Value* value = materialise(binding, name);
  const auto check = [&] { check_declared(*declared, *value); };
  if (declared != nullptr && !collect(fmt::format("output '{}'", name), check)) return;
  add_output(value, name);
}

void Importer::add_output(Value* value, const std::string& name) {
  Function& f = graph_.main;
  if (std::ranges::find(f.output_names, name) != f.output_names.end())
    user_error(
        "two of the module's outputs would be called '{}': one is a sequence or an optional of the model's, "
        "which is "
        "several of them; give the other one another name",
        name);
  // Every output is a buffer of its own, filled by a node.
  bool shared = std::count(f.outputs.begin(), f.outputs.end(), value) != 0;
  if (value->kind != Value::Kind::kResult || shared) value = Builder(f, {name})(op::copy, {value});
  f.outputs.push_back(value);
  f.output_names.push_back(name);
}

// --- nodes

void Importer::convert_nodes(const onnx::GraphProto& graph) {
  struct Opened {
    Opened(Importer& i, const onnx::GraphProto& graph) : importer(i) {
      importer.graphs_.push_back({&graph, importer.open_.size() - 1});
    }
    ~Opened() { importer.graphs_.pop_back(); }
    Importer& importer;
  } opened(*this, graph);
  NodeList list;
  list.nodes = nodes_in_order(graph);
  for (const onnx::ValueInfoProto& output : graph.output()) list.results.insert(output.name());
  convert_list(list);
}

void Importer::convert_named(const onnx::NodeProto& node) {
  std::string name = prefix_ + node_name(node);
  int count = ++node_names_[name];
  if (count > 1) name += fmt::format("#{}", count);
  if (options_.on_node) {
    const std::string domain = is_default_domain(node.domain()) ? "" : node.domain() + "::";
    options_.on_node(name, domain + node.op_type());
  }
  convert_node(node, name);
}

void Importer::check_arity(const onnx::NodeProto& node, const std::string& name) const {
  const std::string domain = domain_name(node.domain());
  const int64_t opset = opset_of(node.domain());
  const std::optional<OpArity> most = largest_arity(domain, node.op_type(), opset);
  if (!most) return;
  const auto check = [&](const auto& names, int at_most, const char* what) {
    int count = names.size();
    while (count > 0 && names[count - 1].empty()) --count;  // left out
    if (count <= at_most) return;
    throw BrokenModel(
        fmt::format("node {} ({}): has {} {}, but {}{}{} of opset {} has at most {}: export the model again, "
                    "or for the opset "
                    "that it is of",
                    name, node.op_type(), count, what, domain, domain.empty() ? "" : "::", node.op_type(),
                    opset, at_most));
  };
  check(node.input(), most->inputs, "inputs");
  check(node.output(), most->outputs, "outputs");
}

void Importer::convert_node(const onnx::NodeProto& node, const std::string& name) {
  const CustomOp* custom = custom_op_of(node);
  const onnx::FunctionProto* function = custom == nullptr ? function_of(node) : nullptr;
  const Convert convert = custom == nullptr && function == nullptr ? converter_of(node) : nullptr;
  if (custom == nullptr && function == nullptr && convert == nullptr) {
    met_unsupported_op_ = true;
    return skip_node(node, name);
  }
  NodeImport import(*this, node, name);
  try {
    if (function != nullptr) return call_function(*function, node, name);
    if (custom != nullptr) return convert_custom(*custom, node, import);
    check_arity(node, name);
    if (is_default_domain(node.domain()) && evaluate_contents(import)) return;
    convert(import);
  } catch (const ReadsUnknown&) {
    return skip_node(node, name);
  } catch (const Unsupported& error) {
    add_unsupported(node, name, error);
    return skip_node(node, name);
  } catch (const Error& error) {
    std::vector<std::string> texts = texts_of(error);
    bool named = true;
    for (std::string& text : texts) {
      if (names_node(text, name)) continue;
      named = false;
      text = fmt::format("node {} ({}): {}", name, node.op_type(), text);
    }
    if (named) throw;
    throw_retold(error, std::move(texts));
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty() || scopes_.back().count(node.output(i)) != 0) continue;
    Binding missing;
    missing.missing = fmt::format("{}: output {}", node.op_type(), i);
    missing.missing_of = name;
    define(node.output(i), std::move(missing), name);
  }
}

void Importer::warn(const std::string& text) {
  if (held_warnings_ != nullptr)
    held_warnings_->push_back(text);
  else if (options_.warn)
    options_.warn(text);
}

bool Importer::take_constant_budget(int64_t bytes) {
  if (bytes > constant_budget_) return false;
  constant_budget_ -= bytes;
  return true;
}

}  // namespace gantry
