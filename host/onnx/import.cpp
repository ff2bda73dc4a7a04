// Reading model files, and importing them as often as it takes.
#include "host/onnx/import.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <climits>

#include "host/onnx/importer.h"
#include "host/onnx/lean_model.h"
#include "host/onnx/size_advice.h"
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

/// A file. `spill`: where its large raw data may lie; null: in memory.
Source source_of(const std::filesystem::path& path, std::shared_ptr<SpillFile> spill) {
  const auto file = std::make_shared<const InputFile>(path);
  const auto lean = std::make_shared<const LeanModel>(lean_model(*file));
  const auto load = [=] { return parse_file(*file, *lean, path.string()); };
  return {load, path.string(), folder_of(path),
          std::make_shared<RawData>(file, lean->raw_data, std::move(spill))};
}

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

OnnxMessages read_onnx_messages(const std::filesystem::path& path) {
  const Source source = source_of(path, nullptr);
  return {source.load(), source.raw_data};
}

Graph import_onnx(const std::filesystem::path& path, const ImportOptions& options) {
  Graph graph = import_model(source_of(path, options.spill), options);
  if (graph.model_name.empty()) graph.model_name = path.stem().string();
  return graph;
}

Graph import_onnx_bytes(std::string_view bytes, const std::filesystem::path& base,
                        const ImportOptions& options) {
  const auto load = [&] { return parse_bytes(bytes, "the model"); };
  return import_model({load, "the model", base, nullptr}, options);
}

}  // namespace gantry
