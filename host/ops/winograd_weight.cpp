// nn.winograd_weight: the weights of a convolution by Winograd's algorithm (host/ops/winograd.h).
#include <algorithm>
#include <thread>

#include "host/ops/conv.h"
#include "host/ops/families.h"
#include "host/ops/support.h"
#include "host/ops/winograd.h"

namespace gantry {

void WinogradWeightAttrs::fields(AttrVisitor& visit) {
  visit("tile", tile);
  visit("block", block);
}

namespace {

std::vector<TensorType> infer_winograd_weight(const Node& node, Function&) {
  const TensorType& w = ops::input_type(node, 0);
  const auto& a = node.attrs_as<WinogradWeightAttrs>();
  ops::require(a.tile == 2 || a.tile == 4 || a.tile == 6, "there is no Winograd algorithm for tiles of {}",
               a.tile);
  ops::require(a.block >= 0, "a block has {} channels", a.block);
  ops::require(w.rank() == 4 && w.shape[2] == Dim(3) && w.shape[3] == Dim(3),
               "the weight {} should have the shape (O, I, 3, 3)", w.str());
  ops::require_float(node, 0);
  const int64_t positions = (a.tile + 2) * (a.tile + 2);
  if (a.block == 0) return {{w.dtype, {positions, w.shape[1], w.shape[0]}}};
  return {{w.dtype, {ceildiv(w.shape[0], a.block), positions, w.shape[1], a.block}}};
}

std::vector<Tensor> compute_winograd_weight(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<WinogradWeightAttrs>();
  const int64_t t = a.tile + 2;
  const ops::Matrix& matrix = ops::winograd_transforms(a.tile).weight;
  const Tensor& w = in[0];
  const Expr &outputs = w.shape()[0], &inputs = w.shape()[1];
  auto rows_body = [&](const std::vector<Expr>& i) {
    return ops::winograd_row(matrix, i[0], [&](int64_t row) {
      return cast(DType::kF64, w({i[3], i[2], row, i[1]}));
    });
  };
  Tensor rows = compute({t, 3, inputs, outputs}, rows_body, "winograd_weight_rows");
  auto at = [&](const Expr& position, const Expr& input, const Expr& output) {
    Expr r = floordiv(position, t), s = mod(position, t);
    return cast(w.dtype(), ops::winograd_row(matrix, s, [&](int64_t column) {
                  return rows({r, column, input, output});
                }));
  };
  auto body = [&](const std::vector<Expr>& i) {
    if (a.block == 0) return at(i[0], i[1], i[2]);
    Expr output = i[0] * a.block + i[3];
    return if_then_else(lt(output, outputs), at(i[1], i[2], output), const_of(w.dtype(), 0));
  };
  return {compute(to_exprs(node.result()->type.shape), body, "winograd_weight")};
}

/// G w G^T of one pair of channels, to positions `stride` elements apart.
void transform_kernel(const ops::Matrix& g, const float* w, float* out, int64_t stride) {
  const size_t t = g.size();
  double rows[8][3];
  for (size_t r = 0; r < t; ++r) {
    for (size_t j = 0; j < 3; ++j)
      rows[r][j] = g[r][0] * double(w[j]) + g[r][1] * double(w[3 + j]) + g[r][2] * double(w[6 + j]);
  }
  for (size_t r = 0; r < t; ++r) {
    for (size_t s = 0; s < t; ++s) {
      const double value = rows[r][0] * g[s][0] + rows[r][1] * g[s][1] + rows[r][2] * g[s][2];
      out[static_cast<int64_t>(r * t + s) * stride] = static_cast<float>(value);
    }
  }
}

/// As compute_winograd_weight; large models have a hundred million of these elements.
std::vector<ConstantPtr> fold_winograd_weight(const Node& node) {
  const ConstantPtr& weight = node.inputs[0]->constant;
  const TensorType& type = weight->type;
  if (type.dtype != DType::kF32) return {};
  const auto& a = node.attrs_as<WinogradWeightAttrs>();
  const int64_t outputs = type.shape[0].value(), inputs = type.shape[1].value();
  const ops::Matrix& g = ops::winograd_transforms(a.tile).weight;
  const int64_t positions = static_cast<int64_t>(g.size() * g.size());
  const int64_t block = a.block == 0 ? outputs : a.block, stride = inputs * block;
  std::byte* bytes = nullptr;
  auto result = allocate_constant(node.result()->type, &bytes);
  auto* out = reinterpret_cast<float*>(bytes);
  const float* w = weight->as<float>();
  const int64_t padded = (outputs + block - 1) / block * block;
  // Neighbouring channels share cache lines of the result: a thread makes kRun of them together.
  constexpr int64_t kRun = 16;
  auto transform_runs = [&](int64_t first, int64_t step) {
    for (int64_t run = first * kRun; run < padded; run += step * kRun) {
      for (int64_t i = 0; i < inputs; ++i) {
        for (int64_t o = run; o < std::min(run + kRun, padded); ++o) {
          float* element = out + o / block * positions * stride + i * block + o % block;
          if (o < outputs) {
            transform_kernel(g, w + (o * inputs + i) * 9, element, stride);
          } else {
            for (int64_t p = 0; p < positions; ++p) element[p * stride] = 0;
          }
        }
      }
    }
  };
  const auto threads = static_cast<int64_t>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  std::vector<std::thread> workers;
  for (int64_t i = 1; i < threads; ++i) workers.emplace_back(transform_runs, i, threads);
  transform_runs(0, threads);
  for (std::thread& worker : workers) worker.join();
  return {result};
}

}  // namespace

void add_winograd_ops(OpSet& set) {
  OpDef op = ops::define<WinogradWeightAttrs>("nn.winograd_weight", FusionClass::kOpaque,
                                              LayoutBehaviour::kNone, {"weight"});
  op.infer = infer_winograd_weight;
  op.compute = compute_winograd_weight;
  op.fold = fold_winograd_weight;
  set.add(std::move(op));
}

}  // namespace gantry
