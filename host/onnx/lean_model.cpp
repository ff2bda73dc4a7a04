#include "host/onnx/lean_model.h"

#include <google/protobuf/message.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "host/support/message_walker.h"

namespace gantry {
namespace {

enum class Kind : uint8_t { kModel, kFunction, kGraph, kNode, kAttribute, kTensor };

/// A field of a message that is a message in which tensors are.
struct Child {
  Kind parent;
  uint64_t field;
  Kind kind;
};
// By onnx.proto.
constexpr Child kChildren[] = {
    {Kind::kModel, 7, Kind::kGraph},        // graph
    {Kind::kModel, 25, Kind::kFunction},    // functions
    {Kind::kFunction, 7, Kind::kNode},      // node
    {Kind::kGraph, 1, Kind::kNode},         // node
    {Kind::kGraph, 5, Kind::kTensor},       // initializer
    {Kind::kNode, 5, Kind::kAttribute},     // attribute
    {Kind::kAttribute, 5, Kind::kTensor},   // t
    {Kind::kAttribute, 6, Kind::kGraph},    // g
    {Kind::kAttribute, 10, Kind::kTensor},  // tensors
    {Kind::kAttribute, 11, Kind::kGraph},   // graphs
};
constexpr uint64_t kRawData = 9;  // of TensorProto

// Less is as well copied by Protocol Buffers.
constexpr uint64_t kLeastBytes = 4096;
// As Protocol Buffers' own limit.
constexpr int kDeepest = 100;

const Child* find_child(Kind parent, uint64_t field) {
  const auto found = std::ranges::find_if(
      kChildren, [&](const Child& child) { return child.parent == parent && child.field == field; });
  return found == std::end(kChildren) ? nullptr : &*found;
}

void append_varint(std::string& bytes, uint64_t value) {
  for (; value >= 128; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
  bytes += static_cast<char>(value);
}

/// Tag and length of a field.
std::string head_of(uint64_t field, uint64_t length) {
  std::string bytes;
  append_varint(bytes, field << 3 | MessageWalker::kLengthDelimited);
  append_varint(bytes, length);
  return bytes;
}

class LeanBuilder {
 public:
  explicit LeanBuilder(const InputFile& file) : window_(file), all_{0, file.size()} {}

  LeanModel run() && {
    if (add(Kind::kModel, all_, 0)) return std::move(model_);
    return {.pieces = {{"", all_}}, .size = all_.size, .raw_data = {}, .sound = false};
  }

 private:
  /// Adds the pieces of a message; false where it is none.
  bool add(Kind kind, const FileRange& message, int depth) {
    const uint64_t end = message.offset + message.size;
    MessageWalker walker(window_, message.offset, end);
    uint64_t done = message.offset;  // from here on the file's bytes are still to be added
    while (const auto field = walker.next()) {
      if (field->wire_type != MessageWalker::kLengthDelimited || field->value < kLeastBytes) continue;
      const Child* child = find_child(kind, field->number);
      if (kind == Kind::kTensor && field->number == kRawData) {
        add_file({done, field->begin - done});
        leave_out({field->content, field->value});
      } else if (child != nullptr) {
        if (depth == kDeepest) return false;
        const FileRange before{done, field->begin - done}, content{field->content, field->value};
        const size_t left_out = model_.raw_data.size();
        if (!add_child(*child, before, content, depth + 1)) return false;
        if (model_.raw_data.size() == left_out) continue;  // it is as in the file
      } else {
        continue;
      }
      done = field->content + field->value;
    }
    add_file({done, end - done});
    return walker.whole();
  }

  /// Adds what stands before a message, and its pieces; nothing if nothing is left out of it.
  bool add_child(const Child& child, const FileRange& before, const FileRange& content, int depth) {
    const size_t pieces = model_.pieces.size(), left_out = model_.raw_data.size();
    const uint64_t size = model_.size;
    add_file(before);
    const size_t head = model_.pieces.size();
    model_.pieces.emplace_back();  // it has the message's length, which is known afterwards
    const uint64_t begin = model_.size;
    if (!add(child.kind, content, depth)) return false;
    if (model_.raw_data.size() == left_out) {
      model_.pieces.resize(pieces);
      model_.size = size;
      return true;
    }
    std::string& bytes = model_.pieces[head].bytes;
    bytes = head_of(child.field, model_.size - begin);
    model_.size += bytes.size();
    return true;
  }

  void leave_out(const FileRange& raw_data) {
    const std::string reference = raw_data_reference(model_.raw_data.size());
    model_.pieces.push_back({head_of(kRawData, reference.size()) + reference, {}});
    model_.size += model_.pieces.back().bytes.size();
    model_.raw_data.push_back(raw_data);
  }

  void add_file(const FileRange& range) {
    if (range.size == 0) return;
    model_.pieces.push_back({"", range});
    model_.size += range.size;
  }

  FileWindow window_;
  const FileRange all_;
  LeanModel model_;
};

}  // namespace

/// Of a tensor what the checker is shown otherwise.
struct CheckableModel::Original {
  onnx::TensorProto* tensor = nullptr;
  std::optional<int> data_type;
  google::protobuf::RepeatedField<int64_t> dims;
};

CheckableModel::CheckableModel(onnx::ModelProto& lean) {
  add(lean);
}

CheckableModel::~CheckableModel() {
  for (Original& original : originals_) {
    original.tensor->clear_data_type();
    if (original.data_type) original.tensor->set_data_type(*original.data_type);
    original.tensor->mutable_dims()->Swap(&original.dims);
  }
}

void CheckableModel::add(google::protobuf::Message& message) {
  if (auto* tensor = dynamic_cast<onnx::TensorProto*>(&message)) {
    if (!referenced_raw_data(tensor->raw_data())) return;
    Original& original = originals_.emplace_back();
    original.tensor = tensor;
    if (tensor->has_data_type()) original.data_type = tensor->data_type();
    tensor->mutable_dims()->Swap(&original.dims);
    tensor->set_data_type(onnx::TensorProto::UINT8);
    tensor->add_dims(static_cast<int64_t>(tensor->raw_data().size()));
    return;
  }
  const auto* reflection = message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      add(*reflection->MutableMessage(&message, field));
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i)
      add(*reflection->MutableRepeatedMessage(&message, field, i));
  }
}

LeanModel lean_model(const InputFile& file) {
  return LeanBuilder(file).run();
}

int LeanStream::Read(void* buffer, int size) {
  std::span<char> to(static_cast<char*>(buffer), static_cast<size_t>(size));
  while (!to.empty() && piece_ < model_.pieces.size()) {
    const auto& [bytes, range] = model_.pieces[piece_];
    const uint64_t length = bytes.empty() ? range.size : bytes.size();
    const auto part = to.first(static_cast<size_t>(std::min<uint64_t>(to.size(), length - at_)));
    size_t got = part.size();
    if (bytes.empty())
      got = file_.read(part, range.offset + at_);
    else
      std::memcpy(part.data(), bytes.data() + at_, got);
    to = to.subspan(got);
    if (got < part.size()) {
      piece_ = model_.pieces.size();  // the file ends
      break;
    }
    at_ += got;
    if (at_ < length) continue;
    ++piece_;
    at_ = 0;
  }
  return size - static_cast<int>(to.size());
}

}  // namespace gantry
