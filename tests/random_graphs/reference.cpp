#include "tests/random_graphs/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "host/ops/conv.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/tensor/element.h"
#include "tests/random_graphs/choices.h"
#include "tests/random_graphs/wide_node.h"

namespace gantry::random_graphs {
namespace {

constexpr int kSamples = 6;
// What a rounding of the samples may do beside one of the arithmetic: functions are exact to a few units, and
// the worst of many elements' roundings is in few samples.
constexpr double kUnits = 4, kBeyondSamples = 8;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double unit_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-11;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}
double largest_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65504;
    case DType::kBF16:
      return 0x1.fep127;
    case DType::kF64:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}
/// Below it are no numbers; results of f16 count as f32's do, which they may be until they are returned, and f32's as
/// bf16's, which they may have been before.
double smallest_of(DType dtype) {
  return dtype == DType::kF64 ? 0x1p-1074 : dtype == DType::kF16 ? 0x1p-24 : 0x1p-133;
}

double* elements(const ConstantPtr& data) {
  return reinterpret_cast<double*>(const_cast<std::byte*>(data->bytes));
}
size_t count_of(const ConstantData& data) {
  return data.size / static_cast<size_t>(byte_width(data.type.dtype));
}

bool has_others_than_numbers(const std::vector<ConstantPtr>& inputs) {
  return std::ranges::any_of(inputs, [](const ConstantPtr& data) {
    if (!data || data->type.dtype != DType::kF64) return false;
    return !std::all_of(elements(data), elements(data) + count_of(*data),
                        [](double v) { return std::isfinite(v); });
  });
}

/// One evaluation: `sample` 0 is the reference itself.
class Evaluation {
 public:
  Evaluation(uint64_t seed, int sample, double product_unit)
      : choices_(seed, "sample" + std::to_string(sample)), sample_(sample), product_unit_(product_unit) {}

  std::vector<ConstantPtr> run(const Function& f, const std::vector<ConstantPtr>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[f.parameters[i]] = widened(inputs[i]);
    for (const Value* constant : f.constants()) values_[constant] = widened(constant->constant);
    for (const Node* node : f.nodes()) evaluate(*node);
    std::vector<ConstantPtr> outputs;
    for (const Value* output : f.outputs) outputs.push_back(values_.at(output));
    return outputs;
  }

 private:
  void evaluate(const Node& node) {
    std::vector<ConstantPtr> inputs;
    for (const Value* input : node.inputs) inputs.push_back(values_.at(input));
    const double unit = unit_of_node(node);
    const bool moves = !computes(node) || sample_ == 0;
    std::vector<ConstantPtr> roughened = inputs;
    if (!moves && !is_sum(node)) {
      // Of a power's exponent a rounding is not one of the result: whole ones are, for negative bases.
      const size_t count = node.op->name == "power" ? 1 : inputs.size();
      for (size_t i = 0; i < count; ++i)
        roughened[i] = roughen(inputs[i], kUnits * unit * growth_of(node), nullptr);
    }
    const std::vector<ConstantPtr> results = run_wide(node, roughened);
    // What is not finite spreads along sums as algorithms want it.
    const bool undetermined = is_sum(node) && has_others_than_numbers(inputs);
    for (size_t i = 0; i < results.size(); ++i) {
      const DType dtype = node.results[i]->type.dtype;
      ConstantPtr result = results[i];
      if (is_float(dtype)) {
        if (!moves) {
          const ConstantPtr terms = is_sum(node) ? sums_of_terms(node, inputs) : nullptr;
          result = roughen(result, kUnits * unit * growth_of(node), terms);
          // Arithmetic on scalars is done in f32 at least.
          if (rounds_beside_one(node))
            result = roughen(result, kUnits * std::min(unit, unit_of(DType::kF32)), one_and_absolute(inputs[0]));
        }
        result = in_range(result, dtype, undetermined);
      }
      values_[node.results[i]] = result;
    }
  }

  // --- what a node does to numbers

  static bool is_product(const Node& node) { return terms_of_product(node).has_value(); }
  static bool is_sum(const Node& node) { return is_product(node) || terms_of_sum(node).has_value(); }
  static double growth_of(const Node& node) {
    const auto product = terms_of_product(node), sum = terms_of_sum(node);
    if (product || sum) return 1 + std::sqrt(static_cast<double>(product ? *product : *sum));
    return 1 + other_growth(node);
  }
  double unit_of_node(const Node& node) const {
    DType dtype = node.results[0]->type.dtype;
    if (!is_float(dtype) && !node.inputs.empty() && node.inputs[0]) dtype = node.inputs[0]->type.dtype;
    return dtype == DType::kF32 && is_product(node) ? product_unit_ : unit_of(dtype);
  }

  /// The same sums of absolute terms; of products, the largest of them everywhere.
  static ConstantPtr sums_of_terms(const Node& node, std::vector<ConstantPtr> inputs) {
    for (ConstantPtr& input : inputs) input = absolute(input);
    const ConstantPtr sums = run_wide(node, inputs)[0];
    if (!is_product(node)) return sums;
    const ConstantPtr same = copied(sums);
    double *to = elements(same), largest = 0;
    const size_t count = count_of(*same);
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::isfinite(to[i]) ? to[i] : 0);
    std::fill(to, to + count, largest);
    return same;
  }

  static ConstantPtr absolute(const ConstantPtr& data) {
    if (!data || data->type.dtype != DType::kF64) return data;
    const ConstantPtr result = copied(data);
    std::transform(elements(result), elements(result) + count_of(*result), elements(result),
                   [](double v) { return std::fabs(v); });
    return result;
  }

  static ConstantPtr one_and_absolute(const ConstantPtr& data) {
    const ConstantPtr result = absolute(data);
    std::transform(elements(result), elements(result) + count_of(*result), elements(result),
                   [](double v) { return 1 + v; });
    return result;
  }

  static ConstantPtr copied(const ConstantPtr& data) { return make_constant(data->type, data->bytes); }

  /// -1, 1 or, in most samples, either.
  double direction() {
    if (sample_ <= 2) return sample_ == 1 ? 1 : -1;
    return choices_.chance(0.5) ? 1 : -1;
  }

  /// Every element moved by `relative` of itself, or of what `scale` has for it.
  ConstantPtr roughen(const ConstantPtr& data, double relative, const ConstantPtr& scale) {
    if (!data || data->type.dtype != DType::kF64) return data;
    const ConstantPtr result = copied(data);
    double* to = elements(result);
    for (size_t i = 0, count = count_of(*result); i < count; ++i) {
      const double size = scale ? std::fabs(elements(scale)[i]) : std::fabs(to[i]);
      if (std::isfinite(to[i]) && std::isfinite(size)) to[i] += direction() * relative * size;
    }
    return result;
  }

  /// As the dtype has it: infinite where it is too large, nearly 0 where it is too small. Elements that are
  /// not determined differ from sample to sample, and so does what follows from them.
  ConstantPtr in_range(const ConstantPtr& data, DType dtype, bool undetermined) const {
    const ConstantPtr result = copied(data);
    double* to = elements(result);
    const double largest = largest_of(dtype);
    for (size_t i = 0, count = count_of(*result); i < count; ++i) {
      const bool overflows = std::fabs(to[i]) > largest;
      if (overflows) to[i] = std::copysign(kInfinity, to[i]);
      // Whether narrow floats overflow depends on where they are kept in f32.
      const bool narrow = dtype == DType::kF16 || dtype == DType::kBF16;
      if (!undetermined && !(narrow && overflows)) continue;
      if (sample_ > 0) to[i] = sample_ % 2 == 0 ? 0 : std::nan("");
    }
    return result;
  }

  Choices choices_;
  int sample_;
  double product_unit_;
  std::map<const Value*, ConstantPtr> values_{{nullptr, nullptr}};
};

bool same_kind(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return !(std::isinf(a) || std::isinf(b)) || a == b;
}

double element(const ConstantData& data, size_t i) {
  const DType dtype = data.type.dtype;
  const std::byte* at = data.bytes + i * static_cast<size_t>(byte_width(dtype));
  return is_float(dtype) ? read_float(dtype, at) : static_cast<double>(read_integer(dtype, at));
}

double allowed_difference(const Expected& expected, const std::vector<const ConstantData*>& samples,
                          size_t i) {
  const double value = element(*expected.value, i);
  double most = 0;
  for (const ConstantData* sample : samples) {
    const double other = element(*sample, i);
    if (!same_kind(value, other)) return kInfinity;
    if (std::isfinite(value)) most = std::max(most, std::fabs(other - value));
  }
  if (!is_float(expected.dtype)) return most > 0 ? kInfinity : 0;
  if (!std::isfinite(value)) return 0;
  return kBeyondSamples * most + unit_of(expected.dtype) * std::fabs(value) +
         kBeyondSamples * smallest_of(expected.dtype);
}

}  // namespace

std::vector<Expected> reference(const Graph& bound, const std::vector<ConstantPtr>& inputs, uint64_t seed,
                                double product_unit) {
  std::vector<std::vector<ConstantPtr>> samples;
  for (int sample = 0; sample <= kSamples; ++sample)
    samples.push_back(Evaluation(seed, sample, product_unit).run(bound.main, inputs));
  std::vector<Expected> expected;
  for (size_t output = 0; output < bound.main.outputs.size(); ++output) {
    Expected e{bound.main.outputs[output]->type.dtype, samples[0][output], {}};
    std::vector<const ConstantData*> others;
    for (int sample = 1; sample <= kSamples; ++sample)
      others.push_back(samples[static_cast<size_t>(sample)][output].get());
    for (size_t i = 0; i < count_of(*e.value); ++i) e.allowed.push_back(allowed_difference(e, others, i));
    expected.push_back(std::move(e));
  }
  return expected;
}

std::string difference(const std::vector<ConstantPtr>& actual, const std::vector<Expected>& expected) {
  if (actual.size() != expected.size())
    return fmt::format("{} outputs instead of {}", actual.size(), expected.size());
  for (size_t output = 0; output < actual.size(); ++output) {
    const ConstantData& a = *actual[output];
    const Expected& e = expected[output];
    if (a.type.dtype != e.dtype || !(a.type.shape == e.value->type.shape))
      return fmt::format("output {} is {} instead of {}", output, a.type.str(),
                         TensorType{e.dtype, e.value->type.shape}.str());
    for (size_t i = 0; i < e.allowed.size(); ++i) {
      const double value = element(a, i), wanted = element(*e.value, i);
      if (std::isinf(e.allowed[i]) || (same_kind(value, wanted) && !std::isfinite(wanted))) continue;
      if (same_kind(value, wanted) && std::fabs(value - wanted) <= e.allowed[i]) continue;
      return fmt::format("element {} of output {} is {} instead of {}, from which it may differ by {:.2g}", i,
                         output, value, wanted, e.allowed[i]);
    }
  }
  return "";
}

double determined_share(const std::vector<Expected>& expected) {
  double all = 0, determined = 0;
  for (const Expected& e : expected) {
    all += static_cast<double>(e.allowed.size());
    determined +=
        static_cast<double>(std::ranges::count_if(e.allowed, [](double a) { return std::isfinite(a); }));
  }
  return all > 0 ? determined / all : 1;
}

}  // namespace gantry::random_graphs
