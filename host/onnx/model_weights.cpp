#include "host/onnx/model_weights.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "device_runtime/src/sha256.h"
#include "host/onnx/import.h"
#include "host/onnx/tensor_data.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using onnx::TensorProto;

/// Elements that the shape says; 0 where it is damaged.
int64_t element_count(const TensorProto& tensor) {
  int64_t count = 1;
  for (int64_t dim : tensor.dims()) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return 0;
  }
  return count;
}

/// Bits of an element, of types that gantry has none for too; 0 where it is not known.
int64_t bits_of(int onnx_element_type) {
  if (const auto dtype = find_dtype(onnx_element_type)) return bit_width(*dtype);
  if (onnx_element_type == TensorProto::COMPLEX64) return 64;
  return onnx_element_type == TensorProto::COMPLEX128 ? 128 : 0;
}

/// Tells which tensors of a model are equal to others. It reads them one by one, and keeps only what tells
/// them apart.
class EqualTensors {
 public:
  EqualTensors(const OnnxMessages& messages, const DataFolder& directory)
      : reader_(messages.model, directory, {}, messages.raw_data) {}

  /// Whether one that is equal was met before. The tensor outlives this; it equals none where its data cannot
  /// be read.
  bool met(const TensorProto& tensor) {
    ConstantPtr data = read(tensor);
    if (data == nullptr) return false;
    const std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
    const Likeness likeness(tensor.data_type(), shape, digest_of(*data, kBegin));
    const auto [place, is_first] = known_.try_emplace(likeness, Alike{&tensor, {}});
    if (is_first) return false;
    if (data->size <= kBegin) return true;
    const Digest digest = digest_of(*data, data->size);
    data.reset();
    return !digests_of(place->second).insert(digest).second;
  }

 private:
  using Digest = runtime::Sha256Digest;
  /// Element type, shape, and the digest of the elements' first bytes.
  using Likeness = std::tuple<int, std::vector<int64_t>, Digest>;
  struct Alike {
    const TensorProto* first = nullptr;
    std::set<Digest> digests;  ///< of all their elements; empty while there is one tensor
  };
  /// Most tensors differ in these bytes, and of external data no more is read then.
  static constexpr size_t kBegin = 4096;

  /// Null where its data cannot be read.
  ConstantPtr read(const TensorProto& tensor) {
    try {
      return reader_.read(tensor, "a tensor");
    } catch (const Error&) {
      return nullptr;  // the import says what is wrong with it
    }
  }

  /// Of at most `most` bytes.
  static Digest digest_of(const ConstantData& data, size_t most) {
    return runtime::sha256(std::span(data.bytes, std::min(data.size, most)));
  }

  std::set<Digest>& digests_of(Alike& alike) {
    if (!alike.digests.empty()) return alike.digests;
    if (const ConstantPtr first = read(*alike.first)) alike.digests.insert(digest_of(*first, first->size));
    return alike.digests;
  }

  TensorReader reader_;
  std::map<Likeness, Alike> known_;
};

class Counter {
 public:
  Counter(const OnnxMessages& messages, const DataFolder& directory) : equal_(messages, directory) {}

  void add_graph(const onnx::GraphProto& graph) {
    for (const TensorProto& tensor : graph.initializer()) add(tensor);
    for (const auto& tensor : graph.sparse_initializer()) add(tensor);
    for (const onnx::NodeProto& node : graph.node()) add_node(node);
  }

  void add_node(const onnx::NodeProto& node) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) add_graph(attribute.g());
      for (const onnx::GraphProto& graph : attribute.graphs()) add_graph(graph);
      if (node.op_type() == "Constant") add_value(attribute);
    }
  }

  const ModelWeights& weights() const { return weights_; }

 private:
  /// What a Constant node holds in one of its attributes, as a tensor.
  void add_value(const onnx::AttributeProto& attribute) {
    const std::string& name = attribute.name();
    if (name == "value" && attribute.has_t()) return add(attribute.t());
    if (name == "sparse_value" && attribute.has_sparse_tensor()) return add(attribute.sparse_tensor());
    TensorProto tensor;
    if (name == "value_float") tensor.add_float_data(attribute.f());
    if (name == "value_int") tensor.add_int64_data(attribute.i());
    if (name == "value_string") tensor.add_string_data(attribute.s());
    if (name == "value_floats") *tensor.mutable_float_data() = attribute.floats();
    if (name == "value_ints") *tensor.mutable_int64_data() = attribute.ints();
    if (name == "value_strings") *tensor.mutable_string_data() = attribute.strings();
    const int count = tensor.float_data_size() + tensor.int64_data_size() + tensor.string_data_size();
    if (count == 0) return;
    if (name.ends_with("s")) tensor.add_dims(count);
    tensor.set_data_type(tensor.float_data_size() > 0   ? TensorProto::FLOAT
                         : tensor.int64_data_size() > 0 ? TensorProto::INT64
                                                        : TensorProto::STRING);
    add(made_.emplace_back(std::move(tensor)));
  }

  void add(const onnx::SparseTensorProto& tensor) {
    const int64_t indices = bytes_of(tensor.indices(), element_count(tensor.indices()));
    const int64_t stored = element_count(tensor.values());
    count(tensor.values().data_type(), {1, stored, bytes_of(tensor.values(), stored) + indices});
  }

  void add(const TensorProto& tensor) {
    const int64_t elements = element_count(tensor);
    const WeightCount one{1, elements, bytes_of(tensor, elements)};
    if (!equal_.met(tensor)) return count(tensor.data_type(), one);
    add_to(weights_.repeated, one);
  }

  void count(int type, const WeightCount& one) {
    add_to(weights_.total, one);
    add_to(weights_.by_type[element_type_text(type)], one);
  }

  static void add_to(WeightCount& sum, const WeightCount& one) {
    sum.tensors += one.tensors;
    sum.parameters += one.parameters;
    sum.bytes += one.bytes;
  }

  static int64_t bytes_of(const TensorProto& tensor, int64_t elements) {
    int64_t bits = 0;
    for (const std::string& text : tensor.string_data()) bits += 8 * static_cast<int64_t>(text.size());
    if (tensor.data_type() == TensorProto::STRING) return bits / 8;
    return __builtin_mul_overflow(elements, bits_of(tensor.data_type()), &bits) ? 0 : (bits + 7) / 8;
  }

  std::deque<TensorProto> made_;  ///< of numbers and strings that are attributes
  EqualTensors equal_;
  ModelWeights weights_;
};

}  // namespace

std::string element_type_text(int onnx_element_type) {
  if (!TensorProto::DataType_IsValid(onnx_element_type))
    return fmt::format("element type {}", onnx_element_type);
  std::string text = TensorProto::DataType_Name(static_cast<TensorProto::DataType>(onnx_element_type));
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

ModelWeights count_weights(const OnnxMessages& messages, const DataFolder& directory) {
  Counter counter(messages, directory);
  counter.add_graph(messages.model->graph());
  for (const onnx::FunctionProto& function : messages.model->functions()) {
    for (const onnx::NodeProto& node : function.node()) counter.add_node(node);
  }
  return counter.weights();
}

}  // namespace gantry
