#include "host/graph/dim_guess.h"

#include <map>
#include <string>

#include "host/support/error.h"

namespace gantry {

int64_t guessed(const Dim& dim, int64_t symbol, int64_t otherwise) {
  std::map<std::string, int64_t> guess;
  for (const std::string& name : dim.symbols()) guess[name] = symbol;
  try {
    return dim.evaluate(guess);
  } catch (const Error&) {
    return otherwise;
  }
}

}  // namespace gantry
