// Transposed convolutions of stride s as convolutions: result position s q + r sums the taps k = r + s j over
// x[q - j], so that each remainder r is a convolution of its own. All of them are the output channels of one,
// whose results are then interleaved:
//
//   w (I, O, k…)  =>  zeros up to s J taps, as (I, O, J, s…)  =>  J reversed, (s… O, I, J…)
//   conv, padded by J - 1: (N, s… O, q…)  =>  (N, q, s…, O)  =>  cut to the result
//
// With groups, I and O are those of one group, and the group is outermost among the output channels.
//
// Where s does not divide the taps, as with 3 taps of stride 2, the later remainders have J - 1 taps and the
// zeros among those of one convolution would be much of its work. Then those of as many taps along each axis
// are a convolution, and the results are joined before they are interleaved.
//
// Dilated taps of stride 1 are taps of a dilated convolution; of greater strides, zeros are put between them.
#include <algorithm>

#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/passes/canonicalize.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

/// Remainders of one number of taps, along one axis.
struct Remainders {
  int64_t first = 0, count = 0, taps = 0;
};

class Expansion {
 public:
  Expansion(Function& function, const Node& node)
      : function_(function), node_(node), build_(function, node), attrs_(node.attrs_as<ConvTransposeAttrs>()) {
    for (size_t i = 0; i < rank(); ++i) {
      const bool spreads = attrs_.strides[i] > 1 || node.inputs[0]->type.shape[i + 2] == Dim(1);
      dilation_.push_back(spreads ? 1 : attrs_.dilations[i]);
      kernel_.push_back(spreads ? (attrs_.kernel[i] - 1) * attrs_.dilations[i] + 1 : attrs_.kernel[i]);
      taps_.push_back((kernel_[i] + attrs_.strides[i] - 1) / attrs_.strides[i]);
    }
  }

  /// A constant weight, and an image on which a convolution is not mostly padding.
  bool applies() const {
    if (!node_.inputs[1]->is_constant()) return false;
    for (size_t i = 0; i < rank(); ++i) {
      const Dim &begin = attrs_.padding[i], &end = attrs_.padding[rank() + i];
      if (!begin.is_constant() || !end.is_constant()) return false;
      if (begin.value() < 0 || end.value() < 0) return false;
      if (kernel_[i] + attrs_.output_padding[i] - end.value() > attrs_.strides[i] * taps_[i]) return false;
    }
    return is_point() || !is_small();
  }

  Value* run() {
    weight_ = spread_taps(node_.inputs[1]);
    if (is_point()) return spread_point(weight_);
    std::vector<Remainders> chosen;
    return cut(interleave(wastes_much() ? join(chosen) : convolve(all_remainders())));
  }

 private:
  size_t rank() const { return attrs_.kernel.size(); }

  /// Each image is one element, of one group, and the result lies within its taps.
  bool is_point() const {
    if (attrs_.groups != 1) return false;
    for (size_t i = 0; i < rank(); ++i) {
      if (!(node_.inputs[0]->type.shape[i + 2] == Dim(1))) return false;
      if (attrs_.output_padding[i] > attrs_.padding[rank() + i].value()) return false;
    }
    return true;
  }
  bool is_small() const {
    for (size_t i = 0; i < rank(); ++i) {
      const Dim& extent = node_.inputs[0]->type.shape[i + 2];
      if (extent.is_constant() && extent.value() < 2 * reach(taps_[i], i) + 1) return true;
    }
    return false;
  }

  /// Zeros among the taps of one convolution cost more than several convolutions do.
  bool wastes_much() const {
    constexpr int64_t kFewChannels = 16;
    constexpr double kMuch = 1.3;
    double taps = 1, all = 1;
    for (size_t i = 0; i < rank(); ++i) {
      taps *= double(kernel_[i]);
      all *= double(attrs_.strides[i] * taps_[i]);
      if (taps_[i] == 1 && kernel_[i] != attrs_.strides[i]) return false;  // some have no taps
    }
    return attrs_.groups == 1 && all >= kMuch * taps &&
           node_.result()->type.shape[1].constant().value_or(0) >= kFewChannels;
  }

  std::vector<Remainders> all_remainders() const {
    std::vector<Remainders> all;
    for (size_t i = 0; i < rank(); ++i) all.push_back({0, attrs_.strides[i], taps_[i]});
    return all;
  }

  /// Those of J taps and those of one less.
  std::vector<Remainders> remainders(size_t axis) const {
    const int64_t stride = attrs_.strides[axis], taps = taps_[axis],
                  whole = kernel_[axis] - stride * (taps - 1);
    if (whole == stride) return {{0, stride, taps}};
    return {{0, whole, taps}, {whole, stride - whole, taps - 1}};
  }

  /// Convolutions of all remainders along the axes after the chosen, as convolve().
  Value* join(std::vector<Remainders>& chosen) {
    const size_t axis = chosen.size();
    if (axis == rank()) return convolve(chosen);
    std::vector<Value*> parts;
    for (const Remainders& some : remainders(axis)) {
      chosen.push_back(some);
      parts.push_back(join(chosen));
      chosen.pop_back();
    }
    if (parts.size() == 1) return parts[0];
    auto attrs = std::make_shared<AxisAttrs>();
    attrs->axis = static_cast<int64_t>(2 + rank() + axis);
    return build_(op::concatenate, parts, attrs);
  }

  Value* reshape(Value* value, Shape shape) { return build_.reshape(value, std::move(shape)); }
  Value* transpose(Value* value, std::vector<int64_t> axes) {
    auto attrs = std::make_shared<TransposeAttrs>();
    attrs->axes = std::move(axes);
    return build_(op::transpose, {value}, attrs);
  }

  /// (groups I, O, k…) -> (groups s… O, I, J…), of the chosen remainders
  Value* phases(Value* weight, const std::vector<Remainders>& chosen) {
    const Shape shape = weight->type.shape;
    auto zeros = std::make_shared<PadAttrs>();
    zeros->before.assign(shape.size(), Dim(0));
    zeros->after = zeros->before;
    const int64_t groups = attrs_.groups, inputs = shape[0].value() / groups;
    Shape split{groups, inputs, shape[1]}, packed{shape[1] * groups, inputs};
    std::vector<int64_t> axes{0};
    auto reverse = std::make_shared<StridedSliceAttrs>();
    reverse->begin.assign(3 + 2 * rank(), Dim(0));
    reverse->strides.assign(3 + 2 * rank(), 1);
    for (size_t i = 0; i < rank(); ++i) {
      zeros->after[i + 2] = attrs_.strides[i] * taps_[i] - kernel_[i];
      split.insert(split.end(), {taps_[i], attrs_.strides[i]});
      packed[0] = packed[0] * chosen[i].count;
      packed.push_back(chosen[i].taps);
      axes.push_back(static_cast<int64_t>(4 + 2 * i));
    }
    reverse->end = split;
    for (size_t i = 0; i < rank(); ++i) {
      const size_t axis = 3 + 2 * i;
      reverse->begin[axis] = chosen[i].taps - 1;
      reverse->end[axis] = -1;
      reverse->strides[axis] = -1;
      reverse->begin[axis + 1] = chosen[i].first;
      reverse->end[axis + 1] = chosen[i].first + chosen[i].count;
    }
    axes.insert(axes.end(), {2, 1});
    for (size_t i = 0; i < rank(); ++i) axes.push_back(static_cast<int64_t>(3 + 2 * i));
    Value* value = reshape(build_(op::pad, {weight}, zeros), split);
    return reshape(transpose(build_(op::strided_slice, {value}, reverse), axes), packed);
  }

  /// (N, q…, groups, s…, O), of the chosen remainders
  Value* convolve(const std::vector<Remainders>& chosen) {
    Value* weight = phases(weight_, chosen);
    auto attrs = std::make_shared<ConvAttrs>();
    attrs->channels = weight->type.shape[0].value();
    attrs->groups = attrs_.groups;
    attrs->strides.assign(rank(), 1);
    attrs->dilations = dilation_;
    for (size_t i = 0; i < rank(); ++i) {
      attrs->kernel.push_back(chosen[i].taps);
      attrs->padding.push_back(reach(chosen[i].taps, i));
    }
    // As many positions whatever the taps.
    for (size_t i = 0; i < rank(); ++i) attrs->padding.push_back(reach(taps_[i], i));
    Value* value = build_(nn::conv, {node_.inputs[0], weight}, attrs);
    const Shape shape = value->type.shape;
    std::vector<int64_t> last{0};
    Shape split{shape[0]};
    for (size_t i = 0; i < rank(); ++i) {
      last.push_back(static_cast<int64_t>(2 + i));
      split.push_back(shape[2 + i]);
    }
    last.push_back(1);
    split.push_back(attrs_.groups);
    for (const Remainders& r : chosen) split.push_back(r.count);
    split.push_back(node_.result()->type.shape[1].value() / attrs_.groups);
    return reshape(transpose(value, last), split);
  }

  /// How far the last of so many taps is from the first.
  int64_t reach(int64_t taps, size_t axis) const { return (taps - 1) * dilation_[axis]; }

  /// (I, O, k…) with zeros between the taps that no convolution dilates.
  Value* spread_taps(Value* weight) {
    const Shape shape = weight->type.shape;
    Shape apart{shape[0], shape[1]}, joined = apart, spread = apart;
    auto zeros = std::make_shared<PadAttrs>();
    zeros->before.assign(2 + 2 * rank(), Dim(0));
    zeros->after = zeros->before;
    for (size_t i = 0; i < rank(); ++i) {
      const int64_t step = kernel_[i] == attrs_.kernel[i] ? 1 : attrs_.dilations[i];
      apart.insert(apart.end(), {shape[i + 2], Dim(1)});
      zeros->after[3 + 2 * i] = step - 1;
      joined.push_back(shape[i + 2] * step);
      spread.push_back(kernel_[i]);
    }
    if (spread == shape) return weight;
    auto cut_off = std::make_shared<StridedSliceAttrs>();
    cut_off->begin.assign(shape.size(), Dim(0));
    cut_off->end = spread;
    cut_off->strides.assign(shape.size(), 1);
    return build_(op::strided_slice, {reshape(build_(op::pad, {reshape(weight, apart)}, zeros), joined)}, cut_off);
  }

  /// A matrix product with all taps.
  Value* spread_point(Value* weight) {
    const Shape data = node_.inputs[0]->type.shape, shape = weight->type.shape;
    Shape taps{data[0], shape[1]};
    Dim units = shape[1];
    for (size_t i = 0; i < rank(); ++i) {
      taps.push_back(shape[i + 2]);
      units = units * shape[i + 2];
    }
    auto attrs = std::make_shared<DenseAttrs>();
    attrs->units = units.value();
    Value* x = reshape(node_.inputs[0], {data[0], data[1]});
    Value* y = reshape(build_(nn::dense, {x, reshape(weight, {shape[0], units})}, attrs), taps);
    return slice(y, 2);
  }

  /// The result's part of the spatial axes from `first` on.
  Value* slice(Value* value, size_t first) {
    const Shape &shape = node_.result()->type.shape, all = value->type.shape;
    auto part = std::make_shared<StridedSliceAttrs>();
    part->begin.assign(all.size(), Dim(0));
    part->end = all;
    part->strides.assign(all.size(), 1);
    for (size_t i = 0; i < rank(); ++i) {
      part->begin[first + i] = attrs_.padding[i];
      part->end[first + i] = attrs_.padding[i] + shape[i + 2];
    }
    const bool whole =
        part->end == all && std::ranges::all_of(part->begin, [](const Dim& d) { return d == Dim(0); });
    return whole ? value : build_(op::strided_slice, {value}, part);
  }

  /// (N, q…, groups, s…, O) -> (N, s q…, groups O)
  Value* interleave(Value* value) {
    const Shape shape = value->type.shape;
    Shape joined{shape[0]};
    std::vector<int64_t> axes{0};
    for (size_t i = 0; i < rank(); ++i) {
      joined.push_back(shape[1 + i] * attrs_.strides[i]);
      axes.insert(axes.end(), {static_cast<int64_t>(1 + i), static_cast<int64_t>(2 + rank() + i)});
    }
    joined.push_back(node_.result()->type.shape[1]);
    axes.insert(axes.end(), {static_cast<int64_t>(1 + rank()), static_cast<int64_t>(2 + 2 * rank())});
    return reshape(transpose(value, axes), joined);
  }

  /// (N, s q…, O) -> the result
  Value* cut(Value* value) {
    value = slice(value, 1);
    std::vector<int64_t> axes{0, static_cast<int64_t>(1 + rank())};
    for (size_t i = 0; i < rank(); ++i) axes.push_back(static_cast<int64_t>(1 + i));
    return transpose(value, axes);
  }

  Function& function_;
  const Node& node_;
  Builder build_;
  const ConvTransposeAttrs& attrs_;
  Value* weight_ = nullptr;             ///< with zeros between dilated taps
  std::vector<int64_t> kernel_, taps_;  ///< its taps along each spatial axis; J
  std::vector<int64_t> dilation_;       ///< of the convolution
};

}  // namespace

void expand_conv_transpose(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  for (Node* node : rewriter.nodes()) {
    if (node->match(nn::conv_transpose) == nullptr) continue;
    Expansion expansion(graph.main, *node);
    if (expansion.applies()) rewriter.replace(node->result(), expansion.run());
  }
}

extern const Pass expand_conv_transpose_pass{
    .name = "expand_conv_transpose",
    .purpose = "transposed convolutions become convolutions and an interleaving",
    .run = expand_conv_transpose,
};

}  // namespace gantry
