#include "host/cli/file_kind.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "device_runtime/src/module_format.h"

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

/// Whether it is a perfetto.protos.Trace: packets, field 1, up to the end; their contents are skipped.
bool is_perfetto_trace(std::ifstream& file, uint64_t size) {
  constexpr int kPacket = 1 << 3 | 2;
  uint64_t at = 0;
  while (at < size) {
    if (file.get() != kPacket) return false;
    ++at;
    uint64_t length = 0;
    for (int shift = 0, byte = 128; byte >= 128; shift += 7, ++at) {
      byte = file.get();
      if (byte == std::char_traits<char>::eof() || shift > 56) return false;
      length |= static_cast<uint64_t>(byte & 127) << shift;
    }
    if (length > size - at) return false;
    at += length;
    file.seekg(static_cast<std::streamoff>(at));
  }
  return true;
}

/// Walks over the fields of a message of Protocol Buffers in a file; their contents are skipped, so that a large one
/// takes no longer than a small one.
class MessageWalker {
 public:
  MessageWalker(std::ifstream& file, uint64_t size) : file_(file), size_(size) {}

  struct Field {
    uint64_t number = 0, wire_type = 0;
    uint64_t value = 0;    ///< of a varint; else the bytes that it has
    uint64_t content = 0;  ///< where in the file these begin
  };
  /// Wire types, of the encoding.
  static constexpr uint64_t kVarint = 0, kEightBytes = 1, kLengthDelimited = 2, kFourBytes = 5;

  /// The next field; nothing at the end, or where there is none.
  std::optional<Field> next() {
    if (at_ >= size_) return std::nullopt;
    const std::optional<uint64_t> tag = varint();
    if (!tag) return fail();
    Field field{*tag >> 3, *tag & 7};
    const bool fixed = field.wire_type == kEightBytes || field.wire_type == kFourBytes;
    if (!fixed && field.wire_type != kVarint && field.wire_type != kLengthDelimited) return fail();
    const std::optional<uint64_t> value = fixed ? field.wire_type == kEightBytes ? 8 : 4 : varint();
    if (!value) return fail();
    field.value = *value;
    field.content = at_;
    if (field.wire_type == kVarint) return field;
    if (*value > size_ - at_) return fail();
    at_ += *value;
    file_.seekg(static_cast<std::streamoff>(at_));
    return field;
  }
  /// Whether the file was such a message up to its end.
  bool whole() const { return at_ == size_ && !failed_; }

  std::string bytes(const Field& field) {
    std::string bytes(field.value, '\0');
    file_.seekg(static_cast<std::streamoff>(field.content));
    file_.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file_.seekg(static_cast<std::streamoff>(at_));
    return bytes;
  }

 private:
  std::nullopt_t fail() {
    failed_ = true;
    return std::nullopt;
  }
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const int byte = file_.get();
      if (byte == std::char_traits<char>::eof()) return std::nullopt;
      ++at_;
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    return std::nullopt;
  }

  std::ifstream& file_;
  uint64_t size_, at_ = 0;
  bool failed_ = false;
};

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
FileKind kind_of_model(std::ifstream& file, uint64_t size) {
  constexpr uint64_t kProducerName = 2, kGraph = 7;
  MessageWalker walker(file, size);
  bool has_graph = false, from_zoo = false;
  while (const auto field = walker.next()) {
    if (!is_model_field(*field)) return FileKind::kOther;
    has_graph = has_graph || field->number == kGraph;
    if (field->number == kProducerName && field->value == kZooProducer.size())
      from_zoo = walker.bytes(*field) == kZooProducer;
  }
  if (!walker.whole() || !has_graph) return FileKind::kOther;
  return from_zoo ? FileKind::kZooModel : FileKind::kOtherModel;
}

/// Whether it is an onnx.TensorProto with an element type.
bool is_tensor_message(std::ifstream& file, uint64_t size) {
  constexpr uint64_t kDims = 1, kDataType = 2, kDataLocation = 14, kLastField = 16;
  MessageWalker walker(file, size);
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
  const auto rewind = [&] {
    file.clear();
    file.seekg(0);
  };
  rewind();
  if (const FileKind kind = kind_of_json(file); kind != FileKind::kOther) return kind;
  rewind();
  if (is_perfetto_trace(file, size)) return FileKind::kTrace;
  rewind();
  if (const FileKind kind = kind_of_model(file, size); kind != FileKind::kOther) return kind;
  rewind();
  return is_tensor_message(file, size) ? FileKind::kTensorProto : FileKind::kOther;
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
