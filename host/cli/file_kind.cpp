#include "host/cli/file_kind.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "device_runtime/src/module_format.h"
#include "host/support/mapped_file.h"
#include "host/support/message_walker.h"

namespace gantry::cli {
namespace {

const std::string_view kModuleMagic(reinterpret_cast<const char*>(module_format::kMagic),
                                    sizeof(module_format::kMagic));
constexpr std::string_view kNpyMagic("\x93NUMPY", 6);
constexpr std::string_view kZipMagic("PK\x03\x04", 4);

constexpr std::string_view kKeyFormat = "gantry-psk-v";
constexpr std::pair<std::string_view, FileKind> kSchemas[] = {{"gantry-bench", FileKind::kResult},
                                                              {"gantry-comparison", FileKind::kComparison},
                                                              {"gantry-tuning", FileKind::kTuning},
                                                              {"gantry-history", FileKind::kHistory},
                                                              {"gantry-records", FileKind::kRecords},
                                                              {"gantry-prior", FileKind::kPrior},
                                                              {"gantry-conformance", FileKind::kConformance}};
constexpr std::string_view kZooProducer = "gantry zoo";
constexpr std::string_view kGraphText = "gir ";
constexpr std::string_view kChromeTrace = "{\"traceEvents\"";

/// Whether the first member of a zip file is an array: the local header has the length of its name at byte 26
/// and the name at byte 30 (APPNOTE.TXT, 4.3.7).
bool is_archive(std::ifstream& file) {
  unsigned char length[2] = {};
  file.seekg(26).read(reinterpret_cast<char*>(length), sizeof length);
  std::string name(static_cast<size_t>(length[0] | length[1] << 8), '\0');
  file.seekg(30).read(name.data(), static_cast<std::streamsize>(name.size()));
  return file && name.ends_with(".npy");
}

/// Whether it begins with a length within the file and a JSON object.
bool is_safetensors(std::string_view start, uint64_t size) {
  constexpr size_t kLengthBytes = 8;
  if (start.size() < kLengthBytes + 2 || start[kLengthBytes] != '{') return false;
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(start[i]);
  const char first = start[kLengthBytes + 1];
  return length <= size - kLengthBytes && (first == '"' || first == '}');
}

/// Stops at the document's "schema"; what comes before it has to be JSON.
class SchemaFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  /// kOther where it is none of gantry's.
  FileKind found() const { return found_; }

  bool key(string_t& name) override {
    at_schema_ = depth_ == 1 && name == "schema";
    return true;
  }
  bool string(string_t& value) override {
    if (!at_schema_) return depth_ > 0;
    for (const auto& [schema, kind] : kSchemas) {
      if (value == schema) found_ = kind;
    }
    return false;
  }
  bool start_object(size_t) override { return open(); }
  bool end_object() override { return --depth_ > 0; }
  bool start_array(size_t) override { return depth_ > 0 && open(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_unsigned(number_unsigned_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t&) override { return scalar(); }
  bool binary(binary_t&) override { return false; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool open() {
    ++depth_;
    return !at_schema_;
  }
  bool scalar() const { return depth_ > 0 && !at_schema_; }

  int depth_ = 0;
  bool at_schema_ = false;
  FileKind found_ = FileKind::kOther;
};

FileKind kind_of_json(std::ifstream& file) {
  SchemaFinder finder;
  nlohmann::json::sax_parse(file, &finder, nlohmann::json::input_format_t::json, /*strict=*/false);
  return finder.found();
}

/// Whether it is a perfetto.protos.Trace: packets, field 1, up to the end.
bool is_perfetto_trace(const InputFile& file) {
  constexpr uint64_t kPacket = 1;
  FileWindow window(file);
  MessageWalker walker(window, 0, file.size());
  while (const auto field = walker.next()) {
    if (field->number != kPacket || field->wire_type != MessageWalker::kLengthDelimited) return false;
  }
  return walker.whole();
}

/// Of onnx.ModelProto: known fields with their wire types, a graph among them.
bool is_model_field(const MessageWalker::Field& field) {
  switch (field.number) {
    case 1:  // ir_version
    case 5:  // model_version
      return field.wire_type == MessageWalker::kVarint;
    case 2:   // producer_name
    case 3:   // producer_version
    case 4:   // domain
    case 6:   // doc_string
    case 7:   // graph
    case 8:   // opset_import
    case 14:  // metadata_props
    case 20:  // training_info
    case 25:  // functions
    case 26:  // configuration
      return field.wire_type == MessageWalker::kLengthDelimited;
    default:
      return false;
  }
}

/// kZooModel, kOtherModel or kOther.
FileKind kind_of_model(const InputFile& file) {
  constexpr uint64_t kProducerName = 2, kGraph = 7;
  FileWindow window(file);
  MessageWalker walker(window, 0, file.size());
  bool has_graph = false, from_zoo = false;
  while (const auto field = walker.next()) {
    if (!is_model_field(*field)) return FileKind::kOther;
    has_graph = has_graph || field->number == kGraph;
    if (field->number == kProducerName && field->value == kZooProducer.size()) {
      std::string name(field->value, '\0');
      file.read(name, field->content);
      from_zoo = name == kZooProducer;
    }
  }
  if (!walker.whole() || !has_graph) return FileKind::kOther;
  return from_zoo ? FileKind::kZooModel : FileKind::kOtherModel;
}

/// Whether it is an onnx.TensorProto with an element type.
bool is_tensor_message(const InputFile& file) {
  constexpr uint64_t kDims = 1, kDataType = 2, kDataLocation = 14, kLastField = 16;
  FileWindow window(file);
  MessageWalker walker(window, 0, file.size());
  bool has_type = false;
  while (const auto field = walker.next()) {
    const bool is_number = field->number == kDataType || field->number == kDataLocation;
    if (field->number == 0 || field->number > kLastField) return false;
    if (is_number && field->wire_type != MessageWalker::kVarint) return false;
    if (!is_number && field->number != kDims && field->wire_type == MessageWalker::kVarint && field->number > 11)
      return false;
    has_type = has_type || field->number == kDataType;
  }
  return walker.whole() && has_type;
}

}  // namespace

FileKind kind_of_file(const std::filesystem::path& path) {
  std::error_code code;
  const uint64_t size = std::filesystem::file_size(path, code);
  std::ifstream file(path, std::ios::binary);
  if (code || !file) return FileKind::kOther;
  if (size == 0) return FileKind::kEmpty;
  char first[64] = {};
  file.read(first, sizeof first);
  const std::string_view start(first, static_cast<size_t>(file.gcount()));
  if (start.starts_with(kModuleMagic)) return FileKind::kModule;
  if (start.starts_with(kNpyMagic)) return FileKind::kTensor;
  if (start.starts_with(kZipMagic)) return is_archive(file) ? FileKind::kArchive : FileKind::kOther;
  if (start.starts_with(kKeyFormat)) return FileKind::kKey;
  if (start.starts_with(kDecisionsMarker)) return FileKind::kDecisions;
  if (start.starts_with(kReportMarker)) return FileKind::kReport;
  if (start.starts_with(kGraphText)) return FileKind::kGraphText;
  if (is_safetensors(start, size)) return FileKind::kWeights;
  if (start.starts_with(kChromeTrace)) return FileKind::kTrace;
  file.clear();
  file.seekg(0);
  if (const FileKind kind = kind_of_json(file); kind != FileKind::kOther) return kind;
  const InputFile input(path);
  if (is_perfetto_trace(input)) return FileKind::kTrace;
  if (const FileKind kind = kind_of_model(input); kind != FileKind::kOther) return kind;
  return is_tensor_message(input) ? FileKind::kTensorProto : FileKind::kOther;
}

std::string_view describe(FileKind kind) {
  switch (kind) {
    case FileKind::kEmpty:
      return "empty";
    case FileKind::kModule:
      return "a module";
    case FileKind::kTensor:
      return "a .npy file";
    case FileKind::kArchive:
      return "a .npz file";
    case FileKind::kTensorProto:
      return "an ONNX tensor (.pb)";
    case FileKind::kResult:
      return "a result of bench";
    case FileKind::kComparison:
      return "a comparison";
    case FileKind::kConformance:
      return "a result of conformance";
    case FileKind::kTuning:
      return "a result of tune";
    case FileKind::kDecisions:
      return "decisions of tune";
    case FileKind::kPrior:
      return "a prior of a cost model";
    case FileKind::kRecords:
      return "records of tuning";
    case FileKind::kHistory:
      return "a history of results";
    case FileKind::kReport:
      return "a report";
    case FileKind::kTrace:
      return "a trace";
    case FileKind::kKey:
      return "a key";
    case FileKind::kZooModel:
      return "a model of gantry's zoo";
    case FileKind::kOtherModel:
      return "a model";
    case FileKind::kGraphText:
      return "graph text";
    case FileKind::kWeights:
      return "a file of weights (safetensors)";
    case FileKind::kOther:
      return "something else";
  }
  return "";
}

}  // namespace gantry::cli
