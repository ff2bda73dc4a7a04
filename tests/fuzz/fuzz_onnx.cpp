// Fuzzes the ONNX importer with changed models. Usage: fuzz_onnx [ROUNDS [SEED [MODEL.onnx …]]]. The seed is
// printed. Without models it changes some of its own: convolutions, recurrences, shape arithmetic,
// attributes.
//
// Strategies: bytes flipped, overwritten with extreme values, removed, doubled; random bytes; and, because
// most changed bytes are no protobuf any more, fields of the message changed: numbers made extreme, names
// swapped, nodes removed, repeated or reordered, dimensions and attributes altered. Each model must be
// imported or refused with an error of kind user, within the limits of tests/fuzz/limits.h; anything else is
// a bug. Every other round gives it as a file, of which large raw data are read apart, and now and then both
// ways are compared: the outcome must be the same.
#include <google/protobuf/text_format.h>
#include <onnx/onnx_pb.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "host/onnx/import.h"
#include "host/support/error.h"
#include "host/support/temporary.h"
#include "tests/fuzz/limits.h"
#include "tests/fuzz/mutate.h"

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr const char* kGraphs[] = {
    R"(node { name: 'c' op_type: 'Conv' input: 'x' input: 'w' output: 'a'
         attribute { name: 'pads' type: INTS ints: 1 ints: 1 ints: 1 ints: 1 }
         attribute { name: 'strides' type: INTS ints: 2 ints: 2 } }
       node { name: 'r' op_type: 'Relu' input: 'a' output: 'b' }
       node { name: 'p' op_type: 'MaxPool' input: 'b' output: 'd'
         attribute { name: 'kernel_shape' type: INTS ints: 3 ints: 3 } attribute { name: 'ceil_mode' type: INT i: 1 } }
       node { name: 'g' op_type: 'GlobalAveragePool' input: 'd' output: 'e' }
       node { name: 'f' op_type: 'Flatten' input: 'e' output: 'h' attribute { name: 'axis' type: INT i: 1 } }
       node { name: 's' op_type: 'Softmax' input: 'h' output: 'y' attribute { name: 'axis' type: INT i: -1 } }
       input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_param: 'N' } dim { dim_value: 2 }
         dim { dim_value: 16 } dim { dim_param: 'W' } } } } }
       output { name: 'y' type { tensor_type { elem_type: 1 } } }
       initializer { name: 'w' data_type: 1 dims: 1 dims: 2 dims: 3 dims: 3
         float_data: [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9] })",
    R"(node { name: 's' op_type: 'Shape' input: 'x' output: 's' }
       node { name: 'g' op_type: 'Gather' input: 's' input: 'i' output: 'n' attribute { name: 'axis' type: INT i: 0 } }
       node { name: 'm' op_type: 'Mul' input: 'n' input: 'i' output: 'k' }
       node { name: 'u' op_type: 'Concat' input: 'n' input: 'm1' output: 'r' attribute { name: 'axis' type: INT i: 0 } }
       node { name: 'z' op_type: 'Reshape' input: 'x' input: 'r' output: 'q' }
       node { name: 't' op_type: 'Transpose' input: 'q' output: 't' attribute { name: 'perm' type: INTS ints: 1 ints: 0 } }
       node { name: 'l' op_type: 'Slice' input: 't' input: 'i' input: 'm1' input: 'i' output: 'v' }
       node { name: 'e' op_type: 'ReduceMean' input: 'v' output: 'y' attribute { name: 'axes' type: INTS ints: 0 } }
       input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_param: 'N' } dim { dim_value: 4 }
         dim { dim_value: 3 } } } } }
       output { name: 'y' type { tensor_type { elem_type: 1 } } }
       initializer { name: 'i' data_type: 7 dims: 1 int64_data: 0 }
       initializer { name: 'm1' data_type: 7 dims: 1 int64_data: -1 })",
    R"(node { name: 'o' op_type: 'Constant' output: 'o'
         attribute { name: 'value' type: TENSOR t { data_type: 1 dims: 1 float_data: 0.5 } } }
       node { name: 'd' op_type: 'Add' input: 'x' input: 'o' output: 'a' }
       node { name: 'l' op_type: 'LSTM' input: 'a' input: 'w' input: 'r' output: 'h' output: 'c'
         attribute { name: 'hidden_size' type: INT i: 1 } }
       node { name: 'q' op_type: 'Squeeze' input: 'h' input: 'i' output: 'y' }
       input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_value: 5 } dim { dim_value: 1 }
         dim { dim_value: 2 } } } } }
       output { name: 'y' type { tensor_type { elem_type: 1 } } }
       initializer { name: 'w' data_type: 1 dims: 1 dims: 4 dims: 2 float_data: [1, 2, 3, 4, 5, 6, 7, 8] }
       initializer { name: 'r' data_type: 1 dims: 1 dims: 4 dims: 1 float_data: [1, 2, 3, 4] }
       initializer { name: 'i' data_type: 7 dims: 1 int64_data: 1 })",
    // Of these, raw data are read apart (host/onnx/lean_model.h).
    R"(node { name: 'm' op_type: 'MatMul' input: 'x' input: 'w' output: 'm' }
       node { name: 'o' op_type: 'Constant' output: 'o' attribute { name: 'value' type: TENSOR t { name: 'raw' } } }
       node { name: 'a' op_type: 'Add' input: 'm' input: 'o' output: 'a' }
       node { name: 'g' op_type: 'Greater' input: 'k' input: 'z' output: 'g' }
       node { name: 'f' op_type: 'If' input: 'g' output: 'y'
         attribute { name: 'then_branch' type: GRAPH g { name: 't'
           node { name: 'b' op_type: 'Mul' input: 'a' input: 'v' output: 'b' }
           initializer { name: 'v' doc_string: 'raw' } output { name: 'b' } } }
         attribute { name: 'else_branch' type: GRAPH g { name: 'e'
           node { name: 'n' op_type: 'Neg' input: 'a' output: 'n' } output { name: 'n' } } } }
       input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_value: 32 } dim { dim_value: 32 } } } } }
       input { name: 'k' type { tensor_type { elem_type: 1 shape { } } } }
       output { name: 'y' type { tensor_type { elem_type: 1 } } }
       initializer { name: 'z' data_type: 1 float_data: 0 }
       initializer { name: 'w' doc_string: 'raw' })"};

/// Gives the tensors that say so their elements, (32, 32) of f32: just enough to be read apart.
void fill_raw(Message& message) {
  if (auto* tensor = dynamic_cast<onnx::TensorProto*>(&message)) {
    if (tensor->doc_string() != "raw" && tensor->name() != "raw") return;
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (const int extent : {32, 32}) tensor->add_dims(extent);
    const std::vector<float> elements(32 * 32, 0.25F);
    tensor->set_raw_data(elements.data(), elements.size() * sizeof(float));
    return;
  }
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) fill_raw(*reflection->MutableMessage(&message, field));
    for (int i = 0; field->is_repeated() && i < reflection->FieldSize(message, field); ++i)
      fill_raw(*reflection->MutableRepeatedMessage(&message, field, i));
  }
}

std::vector<std::string> models(int argc, char** argv) {
  std::vector<std::string> result;
  for (int i = 3; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    result.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (!result.empty()) return result;
  for (const char* graph : kGraphs) {
    onnx::ModelProto proto;
    const std::string text =
        std::string("ir_version: 8 opset_import { version: 16 } graph { name: 'g' ") + graph + " }";
    if (!google::protobuf::TextFormat::ParseFromString(text, &proto))
      std::printf("fuzz_onnx: a model of its own is no model\n");
    fill_raw(proto);
    result.push_back(proto.SerializeAsString());
  }
  return result;
}

class MessageMutator {
 public:
  explicit MessageMutator(std::mt19937& random) : random_(random) {}
  void mutate(Message& message) {
    collect(message);
    for (auto changes = 1 + random_() % 4; changes > 0 && !sites_.empty(); --changes) {
      auto [owner, field] = sites_[random_() % sites_.size()];
      if (field->is_repeated())
        change_repeated(*owner, field);
      else
        change_single(*owner, field);
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return;  // other sites may be gone with it
    }
  }

 private:
  struct Site {
    Message* owner;
    const FieldDescriptor* field;
  };
  void collect(Message& message) {
    std::vector<const FieldDescriptor*> fields;
    const auto* reflection = message.GetReflection();
    reflection->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      sites_.push_back({&message, field});
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field->is_repeated())
        names_.push_back(reflection->GetString(message, field));
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      if (!field->is_repeated()) collect(*reflection->MutableMessage(&message, field));
      for (int i = 0; field->is_repeated() && i < reflection->FieldSize(message, field); ++i)
        collect(*reflection->MutableRepeatedMessage(&message, field, i));
    }
  }
  std::int64_t number() {
    static constexpr std::int64_t kEdges[] = {
        0,         1,         -1,        2,         3,
        -2,        7,         16,        1000,      1 << 20,
        INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, std::int64_t{1} << 40};
    return random_() % 4 == 0 ? static_cast<std::int64_t>(random_()) : kEdges[random_() % std::size(kEdges)];
  }
  std::string text(std::string old) {
    static constexpr const char* kOps[] = {"Conv",       "Gemm",
                                           "MatMul",     "Reshape",
                                           "Concat",     "Gather",
                                           "Slice",      "Pad",
                                           "Resize",     "Expand",
                                           "Tile",       "Split",
                                           "GRU",        "If",
                                           "Loop",       "ConstantOfShape",
                                           "Range",      "Where",
                                           "Cast",       "TopK",
                                           "",           "BatchNormalization",
                                           "Unsqueeze",  "ConvTranspose",
                                           "Einsum",     "ReduceSum",
                                           "AveragePool"};
    switch (random_() % 4) {
      case 0:
        return kOps[random_() % std::size(kOps)];
      case 1:
        if (!old.empty()) old[random_() % old.size()] = static_cast<char>(random_());
        return old;
      case 2:
        return old.substr(0, old.size() / 2);
      default:
        return names_.empty() ? old : names_[random_() % names_.size()];
    }
  }
  void change_single(Message& m, const FieldDescriptor* f) {
    const auto* r = m.GetReflection();
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        r->SetInt32(
            &m, f,
            static_cast<std::int32_t>(random_() % 2 ? random_() % 20 : static_cast<std::uint32_t>(number())));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        r->SetInt64(&m, f, number());
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        r->SetFloat(&m, f, static_cast<float>(number()));
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        r->SetString(&m, f, text(r->GetString(m, f)));
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        r->SetEnumValue(&m, f, static_cast<int>(random_() % 20));
        break;
      default:
        r->ClearField(&m, f);
        break;
    }
  }
  void change_repeated(Message& m, const FieldDescriptor* f) {
    const auto* r = m.GetReflection();
    const int size = r->FieldSize(m, f);
    if (size == 0) return;
    const int at = static_cast<int>(random_() % static_cast<unsigned>(size));
    const auto what = random_() % 5;
    if (what == 0) return r->RemoveLast(&m, f);
    if (what == 1) return r->SwapElements(&m, f, at, size - 1);
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64:
        what == 2 ? r->AddInt64(&m, f, number()) : r->SetRepeatedInt64(&m, f, at, number());
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        what == 2 ? r->AddInt32(&m, f, 1) : r->SetRepeatedInt32(&m, f, at, 1);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        what == 2 ? r->AddFloat(&m, f, 1) : r->SetRepeatedFloat(&m, f, at, static_cast<float>(number()));
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        what == 2 ? r->AddString(&m, f, text(""))
                  : r->SetRepeatedString(&m, f, at, text(r->GetRepeatedString(m, f, at)));
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        r->AddMessage(&m, f)->CopyFrom(r->GetRepeatedMessage(m, f, at));
        break;
      default:
        break;
    }
  }

  std::mt19937& random_;
  std::vector<Site> sites_;
  std::vector<std::string> names_;
};

std::string mutant(const std::string& original, std::mt19937& random) {
  const auto kind = random() % 10;
  if (kind < 6) {
    onnx::ModelProto proto;
    if (proto.ParseFromString(original)) {
      MessageMutator(random).mutate(proto);
      return proto.SerializePartialAsString();
    }
  }
  std::vector<std::byte> bytes(original.size());
  std::memcpy(bytes.data(), original.data(), original.size());
  if (kind == 9) {
    bytes.resize(random() % 512);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  } else {
    gantry::fuzz::mutate(bytes, random);
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What is imported, in the two ways in which it can be given.
class Importers {
 public:
  /// Whether it is sound; errors that are not the user's go through.
  bool bytes(const std::string& model) const {
    return accepted([&] { gantry::import_onnx_bytes(model, folder_.path()); });
  }
  bool file(const std::string& model) const {
    const std::filesystem::path path = folder_.path() / "model.onnx";
    std::ofstream(path, std::ios::binary) << model;
    return accepted([&] { gantry::import_onnx(path); });
  }

 private:
  template <typename Import>
  static bool accepted(const Import& import) {
    try {
      import();
      return true;
    } catch (const gantry::Error& error) {
      if (error.kind() != gantry::ErrorKind::kUser) throw;
      return false;
    }
  }
  const gantry::TemporaryFolder folder_{"fuzz-onnx"};
};

}  // namespace

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? std::atol(argv[1]) : 10000;
  const unsigned long seed = argc > 2 ? std::strtoul(argv[2], nullptr, 0) : std::random_device()();
  std::printf("fuzz_onnx: %ld rounds, seed %lu\n", rounds, seed);
  std::fflush(stdout);
  google::protobuf::SetLogHandler(nullptr);
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  const auto originals = models(argc, argv);
  const Importers importers;
  for (const auto& original : originals) {
    if (importers.bytes(original) && importers.file(original)) continue;
    std::printf("fuzz_onnx: a model is refused as it was\n");
    return 1;
  }
  gantry::fuzz::watch("fuzz_onnx", "fuzz_onnx_failure.onnx");
  long accepted = 0, round = 0;
  double slowest = 0;
  for (; round < rounds; ++round) {
    gantry::fuzz::current = mutant(originals[random() % originals.size()], random);
    gantry::fuzz::limit_time();
    const auto start = std::chrono::steady_clock::now();
    try {
      constexpr long kCompared = 8;
      const bool both = round % kCompared == 0, sound = round % 2 == 0
                                                            ? importers.file(gantry::fuzz::current)
                                                            : importers.bytes(gantry::fuzz::current);
      accepted += sound ? 1 : 0;
      if (both && importers.bytes(gantry::fuzz::current) != sound) {
        std::printf("fuzz_onnx: round %ld: as a file it is %s, as bytes not\n", round,
                    sound ? "sound" : "refused");
        gantry::fuzz::die();
      }
    } catch (const gantry::Error& error) {
      std::printf("fuzz_onnx: round %ld: not the user's error: %s\n", round, error.what());
      gantry::fuzz::die();
    } catch (const std::exception& error) {
      std::printf("fuzz_onnx: round %ld: %s\n", round, error.what());
      gantry::fuzz::die();
    }
    slowest =
        std::max(slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("fuzz_onnx: done, %ld of the changed models were still sound, the slowest took %.2f s\n",
              accepted, slowest);
  return 0;
}
