#include "host/cli/expectation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "host/support/error.h"

namespace gantry::cli {

Deviation compare_tensors(const HostTensor& actual, const HostTensor& expected, const std::string& name,
                          const std::string& source) {
  if (actual.shape != expected.shape || is_string(actual.type) != is_string(expected.type)) {
    user_error("output '{}' is {}, but {} holds {}: it is not this output's reference", name,
               type_and_shape(actual.type, actual.shape), source,
               type_and_shape(expected.type, expected.shape));
  }
  Deviation deviation;
  if (is_string(actual.type)) {  // all or nothing
    const std::vector<std::string_view> a = texts_of(actual), e = texts_of(expected);
    const auto differing = std::ranges::mismatch(a, e).in1;
    if (differing == a.end()) return deviation;
    deviation.relative = std::numeric_limits<double>::infinity();
    deviation.worst_index = differing - a.begin();
    return deviation;
  }
  double scale = 0, worst = 0;
  for (int64_t i = 0; i < element_count(actual.shape); ++i) {
    const double a = element_as_double(actual, i), e = element_as_double(expected, i);
    if (std::isfinite(e)) scale = std::fmax(scale, std::fabs(e));
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    double difference = std::fabs(a - e);
    if (!std::isfinite(difference)) difference = std::numeric_limits<double>::infinity();
    if (difference > worst) {
      worst = difference;
      deviation.worst_index = i;
    }
  }
  deviation.relative = scale > 0 ? worst / scale : worst;
  return deviation;
}

}  // namespace gantry::cli
