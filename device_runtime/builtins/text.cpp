// Strings one behind the other, and in order.
#include <algorithm>
#include <string>
#include <vector>

#include "device_runtime/builtins/functions.h"

namespace gantry::runtime {
namespace {

constexpr auto kString = ElementType::kString;

/// Which element of `tensor` NumPy's broadcasting pairs with an element of `shape`; the walk goes by elements
/// in order.
class Broadcast {
 public:
  Broadcast(const BuiltinTensor& tensor, std::span<const int64_t> shape) {
    const size_t missing = shape.size() - tensor.shape.size();
    uint64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      const bool repeats = axis < missing || tensor.shape[axis - missing] == 1;
      steps_.push_back({static_cast<uint64_t>(shape[axis]), repeats ? 0 : stride});
      if (axis >= missing) stride *= static_cast<uint64_t>(tensor.shape[axis - missing]);
    }
  }
  static bool fits(const BuiltinTensor& tensor, std::span<const int64_t> shape) {
    if (tensor.shape.size() > shape.size()) return false;
    const size_t missing = shape.size() - tensor.shape.size();
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      if (tensor.shape[axis] != 1 && tensor.shape[axis] != shape[axis + missing]) return false;
    }
    return true;
  }
  uint64_t at(uint64_t index) const {
    uint64_t place = 0;
    for (const Step& step : steps_) {
      place += index % step.extent * step.stride;
      index /= step.extent;
    }
    return place;
  }

 private:
  struct Step {
    uint64_t extent, stride;
  };
  std::vector<Step> steps_;  ///< from the last axis
};

}  // namespace

Status concat_texts(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {kString, kString}, {kString}));
  const BuiltinTensor& result = call.outputs[0];
  for (size_t i = 0; i < 2; ++i) {
    if (!Broadcast::fits(call.inputs[i], result.shape)) return bad_call(call);
  }
  const Broadcast first(call.inputs[0], result.shape), second(call.inputs[1], result.shape);
  std::string joined;
  for (uint64_t i = 0; i < result.elements; ++i) {
    Result<std::string_view> a = text_at(call, call.inputs[0], first.at(i));
    if (!a.ok()) return a.status();
    Result<std::string_view> b = text_at(call, call.inputs[1], second.at(i));
    if (!b.ok()) return b.status();
    joined.assign(*a);
    joined.append(*b);
    GANTRY_TRY(put_text(call, result, i, joined));
  }
  return Status();
}

Status rank_texts(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {kString}, {ElementType::kI64}));
  const uint64_t count = call.inputs[0].elements;
  if (call.outputs[0].elements != count) return bad_call(call);
  std::vector<std::string_view> texts, sorted;
  for (uint64_t i = 0; i < count; ++i) {
    Result<std::string_view> text = text_at(call, call.inputs[0], i);
    if (!text.ok()) return text.status();
    texts.push_back(*text);
  }
  sorted = texts;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  auto* ranks = call.outputs[0].as<int64_t>();
  for (uint64_t i = 0; i < count; ++i)
    ranks[i] = std::lower_bound(sorted.begin(), sorted.end(), texts[i]) - sorted.begin();
  return Status();
}

}  // namespace gantry::runtime
