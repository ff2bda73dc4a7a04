#include "tests/random_graphs/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "host/ops/op.h"
#include "host/tensor/element.h"
#include "tests/random_graphs/choices.h"
#include "tests/random_graphs/enclosed_node.h"

namespace gantry::random_graphs {
namespace {

bool is_within(double value, const Interval& expected) {
  if (expected.is_anything()) return true;
  if (std::isnan(value) || expected.is_nan()) return std::isnan(value) && expected.is_nan();
  return expected.low <= value && value <= expected.high;
}

std::string difference_at(const ConstantData& actual, const Elements& expected, size_t i) {
  const DType dtype = actual.type.dtype;
  const std::byte* at = actual.bytes + i * static_cast<size_t>(byte_width(dtype));
  const Element& e = expected.of[i];
  if (!is_float(dtype)) {
    const int64_t value = read_integer(dtype, at);
    return !e.known || value == e.whole ? "" : fmt::format("is {} instead of {}", value, e.whole);
  }
  const double value = read_float(dtype, at);
  if (is_within(value, e.number)) return "";
  return fmt::format("is {} instead of {}, of which roundings make {} to {}", value, e.number.value, e.number.low,
                     e.number.high);
}

bool is_determined(const Element& e, DType dtype, double largest) {
  if (!is_float(dtype)) return e.known;
  if (e.number.is_point()) return true;
  constexpr double kNearly = 0.01;
  return e.number.high - e.number.low <= kNearly * largest;
}

}  // namespace

std::vector<Elements> reference(const Graph& bound, const std::vector<ConstantPtr>& inputs, uint64_t seed,
                                double product_unit) {
  Choices choices(seed, "corners");
  const Function& f = bound.main;
  std::map<const Value*, Elements> values;
  for (size_t i = 0; i < inputs.size(); ++i) values[f.parameters[i]] = exactly(*inputs[i]);
  for (const Value* constant : f.constants()) values[constant] = exactly(*constant->constant);
  for (const Node* node : f.nodes()) {
    std::vector<const Elements*> arguments;
    for (const Value* input : node->inputs) arguments.push_back(input ? &values.at(input) : nullptr);
    std::vector<Elements> results = enclosed(*node, arguments, product_unit, choices);
    for (size_t i = 0; i < results.size(); ++i) values[node->results[i]] = std::move(results[i]);
  }
  std::vector<Elements> expected;
  for (const Value* output : f.outputs) expected.push_back(values.at(output));
  return expected;
}

std::string difference(const std::vector<ConstantPtr>& actual, const std::vector<Elements>& expected) {
  if (actual.size() != expected.size())
    return fmt::format("{} outputs instead of {}", actual.size(), expected.size());
  for (size_t output = 0; output < actual.size(); ++output) {
    const ConstantData& a = *actual[output];
    const Elements& e = expected[output];
    if (!(a.type == e.type)) return fmt::format("output {} is {} instead of {}", output, a.type.str(), e.type.str());
    for (size_t i = 0; i < e.of.size(); ++i) {
      const std::string wrong = difference_at(a, e, i);
      if (!wrong.empty()) return fmt::format("element {} of output {} {}", i, output, wrong);
    }
  }
  return "";
}

double determined_share(const std::vector<Elements>& expected) {
  double all = 0, determined = 0;
  for (const Elements& output : expected) {
    double largest = 0;
    for (const Element& e : output.of) {
      if (std::isfinite(e.number.value)) largest = std::max(largest, std::fabs(e.number.value));
    }
    all += static_cast<double>(output.of.size());
    determined += static_cast<double>(std::ranges::count_if(
        output.of, [&](const Element& e) { return is_determined(e, output.type.dtype, largest); }));
  }
  return all > 0 ? determined / all : 1;
}

}  // namespace gantry::random_graphs
