#include "host/passes/balanced_weight.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "host/support/error.h"
#include "host/support/in_parallel.h"
#include "host/tensor/element.h"

namespace gantry {
namespace {

float nearest_bf16(float x) {
  return bfloat_to_float(float_to_bfloat(x));
}

/// From a bf16 to the next in magnitude.
float bf16_step(float x) {
  const auto bits = std::bit_cast<uint32_t>(std::abs(x));
  return std::bit_cast<float>(bits + 0x10000u) - std::bit_cast<float>(bits);
}

/// One output's weights in parts: their sum, what is left of the weight, and what its next neighbour is away.
struct Parts {
  explicit Parts(size_t count) : sum(count), rest(count), step(count) {}
  std::vector<float> sum, rest, step;

  void split(const float* weights, int64_t parts) {
    for (size_t i = 0; i < sum.size(); ++i) {
      const float high = nearest_bf16(weights[i]);
      const float low = parts == 1 ? 0 : nearest_bf16(weights[i] - high);
      sum[i] = high + low;
      rest[i] = weights[i] - high - low;
      step[i] = bf16_step(parts == 1 ? high : low);
    }
  }
};

/// Of weights that lie within `margin` steps of the middle between two neighbours, takes the other one, while
/// that brings the sum of their rests, `sum`, nearer to nothing. Returns what it then is.
double take_others(Parts& p, double sum, double margin) {
  const double sign = sum < 0 ? -1 : 1;
  double excess = sign * sum;
  for (size_t i = 0; i < p.sum.size(); ++i) {
    const double rest = sign * p.rest[i], step = p.step[i];
    // Few come past the first question; half of them would past `rest <= 0`, and the branch be mispredicted.
    if (rest < (0.5 - margin) * step) continue;
    if (rest <= 0 || step >= 2 * excess) continue;
    p.sum[i] += static_cast<float>(sign * step);
    p.rest[i] -= static_cast<float>(sign * step);
    excess -= step;
  }
  return sign * excess;
}

/// Rounds one output's `weights` in place.
void balance(std::span<float> weights, Parts& p, int64_t parts) {
  const size_t count = weights.size();
  p.split(weights.data(), parts);
  double rests = 0, steps = 0;
  for (size_t i = 0; i < count; ++i) {
    rests += p.rest[i];
    steps += p.step[i];
  }
  if (!std::isfinite(rests) || !std::isfinite(steps)) return;
  // Rests are spread evenly between half a step below and above: so many weights are near enough to the
  // middle.
  double margin = std::abs(rests) / steps;
  for (int round = 0; round < 3 && margin > 0; ++round, margin *= 2)
    rests = take_others(p, rests, std::min(margin, 0.5));
  std::ranges::copy(p.sum, weights.begin());
}

}  // namespace

ConstantPtr balanced_weight(const ConstantData& weight, int64_t parts, OutputAxis axis) {
  internal_check(parts == 1 || parts == 2, "weights are not rounded to {} parts", parts);
  std::byte* bytes = nullptr;
  auto result = allocate_constant(weight.type, &bytes);
  const bool first = axis == OutputAxis::kFirst;
  const auto outputs = (first ? weight.type.shape.front() : weight.type.shape.back()).value();
  const auto count = static_cast<int64_t>(weight.size / sizeof(float)) / std::max<int64_t>(outputs, 1);
  const auto* from = weight.as<float>();
  auto* to = reinterpret_cast<float*>(bytes);
  in_parallel(outputs, [&](int64_t begin, int64_t end) {
    Parts room(static_cast<size_t>(count));
    std::vector<float> one(static_cast<size_t>(count));
    const int64_t start = first ? count : 1, step = first ? 1 : outputs;
    for (int64_t o = begin; o < end; ++o) {
      for (int64_t i = 0; i < count; ++i) one[static_cast<size_t>(i)] = from[o * start + i * step];
      balance(one, room, parts);
      for (int64_t i = 0; i < count; ++i) to[o * start + i * step] = one[static_cast<size_t>(i)];
    }
  });
  return result;
}

}  // namespace gantry
