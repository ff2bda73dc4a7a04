// Which sizes of a dimension would do, in words, where the one given does not. Knows neither modules nor
// models: the runtime and the importer say so with it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace gantry::runtime {

/// "must be a multiple of 32; 224 or 256 would do": found by trying sizes around `given`, which does not fit,
/// and small ones; empty where none of them fits. `fits` is called some thousand times.
std::string fitting_sizes(int64_t given, const std::function<bool(int64_t size)>& fits);

/// "input 'x': height (dimension 2, H)"; `meaning` is empty where it is unknown.
std::string dimension_place(const std::string& input, size_t axis, const std::string& symbol,
                            const std::string& meaning);

/// One of the sizes that a broken constraint depends on.
struct SuspectSize {
  std::string place;  ///< dimension_place()
  int64_t given = 0;
  std::function<bool(int64_t size)> fits;  ///< with the other sizes as given
};
/// "input 'x': height (dimension 2, H) is 225, must be a multiple of 32; 224 or 256 would do (needed by
/// Conv_3)". `equation`: what does not hold, "N = 3 must equal M = 4", said where several sizes could be
/// changed, or none. `origin`: the node that needs it, may be empty; one that ends with the reason in
/// parentheses says that in the place of the equation.
std::string broken_sizes(std::span<const SuspectSize> sizes, const std::string& equation,
                         const std::string& origin);

}  // namespace gantry::runtime
