#include "host/graph/shape_guess.h"

#include <algorithm>
#include <map>
#include <string>

#include "host/support/error.h"

namespace gantry::guess {

int64_t extent(const Dim& dim, Extent measures) {
  if (dim.is_constant()) return dim.value();
  // What a layer has left of an image's side is no more than the guess for that, unless a range says so.
  int64_t most = value(measures);
  for (const auto& [name, range] : dim.symbol_ranges()) most = std::max(most, range.low);
  return std::clamp<int64_t>(total(dim, value(measures), most), 1, most);
}

int64_t rows(const Shape& data) {
  int64_t count = 1;
  for (size_t i = 0; i + 1 < data.size(); ++i)
    count *= extent(data[i], i == 0 && data.size() > 2 ? Extent::kBatch : Extent::kRows);
  return count;
}

int64_t total(const Dim& dim, int64_t symbol, int64_t otherwise) {
  std::map<std::string, int64_t> guesses;
  for (const auto& [name, range] : dim.symbol_ranges()) guesses[name] = std::clamp(symbol, range.low, range.high);
  try {
    return dim.evaluate(guesses);
  } catch (const Error&) {
    return otherwise;
  }
}

}  // namespace gantry::guess
