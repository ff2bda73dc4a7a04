// When a tensor counts as the expected one, and which element says most clearly that it is not.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "host/graph/graph.h"

namespace gantry::conformance {

/// |actual - expected| <= absolute + relative * |expected|, element by element, of floats; those of ONNX's
/// own runner. Integers and bools have to be equal.
struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
};

/// A float, an integer, a bool, or text.
using Element = std::variant<double, int64_t, uint64_t, bool, std::string>;
/// As in messages: "0.125", "-3", "true", "nan".
std::string element_text(const Element& element);
/// Element `index` in row-major order.
Element element_of(const ConstantData& tensor, size_t index);

struct WrongElement {
  size_t index = 0;  ///< in row-major order
  double expected = 0, actual = 0;
  double allowed = 0;                   ///< |actual - expected| may be so much
  int64_t differing = 0, elements = 0;  ///< how many are outside the tolerance, of how many
};

/// Of the elements outside the tolerance the one that is farthest outside; nothing if there is none. NaN
/// equals NaN. The types must be equal.
std::optional<WrongElement> worst_element(const ConstantData& actual, const ConstantData& expected,
                                          const Tolerance& tolerance = {});

/// Empty if types are equal and elements within the tolerance, else what differs.
std::string difference(const ConstantData& actual, const ConstantData& expected,
                       const Tolerance& tolerance = {});

}  // namespace gantry::conformance
