#include "host/graph/late_values.h"

#include <string_view>

#include "host/support/error.h"

namespace gantry {
namespace {

/// The dimensions that a row says; the elements that they make must be among those that are left.
Shape shape_of_row(const int64_t* row, int64_t most_dims, int64_t left, int64_t& count) {
  const int64_t rank = row[0];
  if (rank < 0 || rank > most_dims)
    user_error("a sequence has a tensor of {} dimensions, not 0 to {}", rank, most_dims);
  Shape shape;
  count = 1;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t size = row[1 + d];
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      user_error("a sequence has a tensor with a dimension of {}", size);
    shape.emplace_back(size);
  }
  if (count > left) user_error("a sequence has a tensor of {} elements, of which {} are there", count, left);
  return shape;
}

}  // namespace

std::string late_elements_name(const std::string& sequence) {
  return sequence + "[]";
}
std::string late_dims_name(const std::string& sequence) {
  return sequence + "[].dims";
}
std::string late_presence_name(const std::string& optional) {
  return optional + "?";
}

std::vector<ConstantPtr> unpack_sequence(const ConstantPtr& elements, const ConstantPtr& dims) {
  const auto table = constant_shape(dims->type.shape), flat = constant_shape(elements->type.shape);
  if (dims->type.dtype != DType::kI64 || !table || table->size() != 2 || (*table)[1] < 1 || !flat ||
      flat->size() != 1)
    user_error("{} and {} are no sequence", elements->type.str(), dims->type.str());
  const auto width = static_cast<size_t>(byte_width(elements->type.dtype));
  int64_t begin = 0;
  std::vector<ConstantPtr> tensors;
  for (int64_t i = 0; i < (*table)[0]; ++i) {
    int64_t count = 0;
    auto tensor = std::make_shared<ConstantData>();
    tensor->type = {elements->type.dtype, shape_of_row(dims->as<int64_t>() + i * (*table)[1], (*table)[1] - 1,
                                                       (*flat)[0] - begin, count)};
    tensor->bytes = elements->bytes + static_cast<size_t>(begin) * width;
    tensor->size = static_cast<size_t>(count) * width;
    tensor->owner = elements;
    tensors.push_back(std::move(tensor));
    begin += count;
  }
  if (begin != (*flat)[0]) user_error("a sequence's tensors have {} of its {} elements", begin, (*flat)[0]);
  return tensors;
}

namespace {

/// Reads a module's outputs one behind the other.
class OutputReader {
 public:
  OutputReader(const std::vector<NamedConstant>& outputs, const std::set<std::string>& tensors)
      : outputs_(outputs), tensors_(tensors) {}

  UnpackedOutputs read() {
    while (next_ < outputs_.size()) {
      const NamedConstant& output = outputs_[next_];
      const bool is_there = !has_mark(output, "?") || read_presence(output);
      if (next_ < outputs_.size()) read_value(is_there);
    }
    return std::move(unpacked_);
  }

 private:
  bool has_mark(const NamedConstant& output, std::string_view mark) const {
    return output.name.ends_with(mark) && !tensors_.contains(output.name);
  }

  bool read_presence(const NamedConstant& output) {
    if (output.tensor->type.dtype != DType::kBool || output.tensor->size != 1)
      user_error("output '{}' is {}, not one bool", output.name, output.tensor->type.str());
    ++next_;
    const bool is_there = *output.tensor->bytes != std::byte{0};
    if (!is_there) unpacked_.absent.insert(output.name.substr(0, output.name.size() - 1));
    return is_there;
  }

  void read_value(bool is_there) {
    const NamedConstant& output = outputs_[next_++];
    if (!has_mark(output, "[]")) {
      if (is_there) unpacked_.tensors.push_back(output);
      return;
    }
    const std::string name = output.name.substr(0, output.name.size() - 2);
    if (next_ == outputs_.size() || outputs_[next_].name != late_dims_name(name))
      user_error("output '{}' is not followed by '{}'", output.name, late_dims_name(name));
    const ConstantPtr dims = outputs_[next_++].tensor;
    if (!is_there) return;
    unpacked_.sequences.insert(name);
    size_t count = 0;
    for (ConstantPtr& tensor : unpack_sequence(output.tensor, dims))
      unpacked_.tensors.push_back({name + "[" + std::to_string(count++) + "]", std::move(tensor)});
  }

  const std::vector<NamedConstant>& outputs_;
  const std::set<std::string>& tensors_;
  size_t next_ = 0;
  UnpackedOutputs unpacked_;
};

}  // namespace

UnpackedOutputs unpack_outputs(const std::vector<NamedConstant>& outputs,
                               const std::set<std::string>& tensors) {
  return OutputReader(outputs, tensors).read();
}

}  // namespace gantry
