#include "tests/cases/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "host/support/error.h"
#include "host/tensor/element.h"

namespace gantry::conformance {
namespace {

double element(const ConstantData& tensor, size_t index) {
  const DType dtype = tensor.type.dtype;
  const std::byte* at = tensor.bytes + index * static_cast<size_t>(byte_width(dtype));
  if (is_float(dtype)) return read_float(dtype, at);
  const int64_t value = read_integer(dtype, at);
  return dtype == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(value))
                              : static_cast<double>(value);
}

/// How many times the allowed difference; 0 within it.
double excess(double actual, double expected, double allowed) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected))) return 0;
  const double difference = std::abs(actual - expected);
  if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  return difference <= allowed ? 0 : difference / std::max(allowed, std::numeric_limits<double>::min());
}

}  // namespace

std::optional<WrongElement> worst_element(const ConstantData& actual, const ConstantData& expected,
                                          const Tolerance& tolerance) {
  internal_check(actual.type == expected.type, "tensors of unlike types are compared");
  const size_t count = expected.size / static_cast<size_t>(byte_width(expected.type.dtype));
  std::optional<WrongElement> worst;
  double most = 0;
  for (size_t i = 0; i < count; ++i) {
    const double a = element(actual, i), e = element(expected, i);
    const double allowed = tolerance.absolute + tolerance.relative * std::abs(e);
    const double times = excess(a, e, allowed);
    if (times <= most) continue;
    most = times;
    worst = {i, e, a, allowed};
  }
  return worst;
}

std::string difference(const ConstantData& actual, const ConstantData& expected, const Tolerance& tolerance) {
  if (!(actual.type == expected.type))
    return fmt::format("{} instead of {}", actual.type.str(), expected.type.str());
  const auto worst = worst_element(actual, expected, tolerance);
  if (!worst) return "";
  return fmt::format("element {} is {} instead of {}", worst->index, worst->actual, worst->expected);
}

}  // namespace gantry::conformance
