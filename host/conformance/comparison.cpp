#include "host/conformance/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "host/graph/strings.h"
#include "host/support/error.h"
#include "host/tensor/element.h"

namespace gantry::conformance {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::byte* place_of(const ConstantData& tensor, size_t index) {
  return tensor.bytes + index * static_cast<size_t>(byte_width(tensor.type.dtype));
}

double to_double(const Element& element) {
  if (const auto* number = std::get_if<double>(&element)) return *number;
  if (const auto* number = std::get_if<int64_t>(&element)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<uint64_t>(&element)) return static_cast<double>(*number);
  const auto* truth = std::get_if<bool>(&element);
  return truth != nullptr && *truth ? 1 : 0;
}

/// How many times the allowed difference; 0 within it.
double excess(double actual, double expected, double allowed) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected))) return 0;
  const double difference = std::abs(actual - expected);
  if (!std::isfinite(difference)) return kInfinity;
  return difference <= allowed ? 0 : difference / std::max(allowed, std::numeric_limits<double>::min());
}

/// How far apart unlike integers are: more than 0 also where doubles cannot tell them apart.
double integer_excess(const Element& actual, const Element& expected) {
  if (actual == expected) return 0;
  return std::max(std::abs(to_double(actual) - to_double(expected)), 1.0);
}

}  // namespace

std::string element_text(const Element& element) {
  if (const auto* truth = std::get_if<bool>(&element)) return *truth ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&element)) return "'" + *text + "'";
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, element);
}

Element element_of(const ConstantData& tensor, size_t index) {
  const DType dtype = tensor.type.dtype;
  const std::byte* at = place_of(tensor, index);
  if (dtype == DType::kString) return std::string(string_at(tensor, index));
  if (is_float(dtype)) return read_float(dtype, at);
  const int64_t value = read_integer(dtype, at);
  if (dtype == DType::kBool) return value != 0;
  if (is_unsigned_int(dtype)) return static_cast<uint64_t>(value);
  return value;
}

std::optional<WrongElement> worst_element(const ConstantData& actual, const ConstantData& expected,
                                          const Tolerance& tolerance) {
  internal_check(actual.type == expected.type, "tensors of unlike types are compared");
  const bool exact = !is_float(expected.type.dtype);
  const size_t count = expected.size / static_cast<size_t>(byte_width(expected.type.dtype));
  std::optional<WrongElement> worst;
  double most = 0;
  int64_t differing = 0;
  for (size_t i = 0; i < count; ++i) {
    const Element a = element_of(actual, i), e = element_of(expected, i);
    const double allowed = exact ? 0 : tolerance.absolute + tolerance.relative * std::abs(to_double(e));
    const double times = exact ? integer_excess(a, e) : excess(to_double(a), to_double(e), allowed);
    differing += times > 0 ? 1 : 0;
    if (times <= most) continue;
    most = times;
    worst = {i, to_double(e), to_double(a), allowed};
  }
  if (worst) worst->differing = differing;
  if (worst) worst->elements = static_cast<int64_t>(count);
  return worst;
}

std::string difference(const ConstantData& actual, const ConstantData& expected, const Tolerance& tolerance) {
  if (!(actual.type == expected.type))
    return fmt::format("{} instead of {}", actual.type.str(), expected.type.str());
  const auto worst = worst_element(actual, expected, tolerance);
  if (!worst) return "";
  return fmt::format("element {} is {} instead of {}", worst->index,
                     element_text(element_of(actual, worst->index)),
                     element_text(element_of(expected, worst->index)));
}

}  // namespace gantry::conformance
