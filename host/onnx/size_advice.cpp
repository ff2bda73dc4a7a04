#include "host/onnx/size_advice.h"

#include <algorithm>
#include <set>
#include <vector>

#include "device_runtime/src/fitting_sizes.h"
#include "device_runtime/src/shape_errors.h"
#include "host/ops/size_meaning.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using Sizes = std::map<std::string, int64_t>;

std::vector<std::string> symbols_of(const DimConstraint& constraint) {
  std::set<std::string> all;
  for (const Dim& dim : {constraint.left, constraint.right}) {
    for (std::string& name : dim.symbols()) all.insert(std::move(name));
  }
  return {all.begin(), all.end()};
}

std::string place_of(const Function& main, const std::string& symbol) {
  const auto meaning = static_cast<module_format::SizeMeaning>(size_meanings(main)[symbol]);
  for (const Value* input : main.parameters) {
    for (size_t axis = 0; axis < input->type.shape.size(); ++axis) {
      const Dim& dim = input->type.shape[axis];
      if (dim.is_symbol() && dim.str() == symbol)
        return runtime::dimension_place(input->name, axis, symbol, runtime::meaning_text(meaning));
    }
  }
  return symbol;
}

/// Whether sizes of `symbol` fit while the others stay.
std::function<bool(int64_t)> fits(const Function& main, const DimConstraint& broken,
                                  const std::string& symbol, const Sizes& given) {
  std::vector<DimConstraint> needed = {broken};
  for (const DimConstraint& other : main.constraints) {
    if (symbols_of(other) == std::vector{symbol}) needed.push_back(other);
  }
  return [needed, symbol, sizes = given](int64_t size) mutable {
    sizes[symbol] = size;
    return std::ranges::all_of(needed, [&](const DimConstraint& c) { return holds(c, sizes); });
  };
}

std::string side_text(const Dim& dim, const Sizes& sizes) {
  return dim.is_constant() ? dim.str() : fmt::format("{} = {}", dim.str(), dim.evaluate(sizes));
}

std::string describe(const Function& main, const DimConstraint& broken, const Sizes& sizes) {
  std::vector<runtime::SuspectSize> suspects;
  for (const std::string& symbol : symbols_of(broken))
    suspects.push_back({place_of(main, symbol), sizes.at(symbol), fits(main, broken, symbol, sizes)});
  std::string equation = fmt::format("{} must equal {}", broken.left.str(), broken.right.str());
  try {
    equation = fmt::format("{} must equal {}", side_text(broken.left, sizes), side_text(broken.right, sizes));
  } catch (const Error&) {
    // Without values, which overflow.
  }
  return runtime::broken_sizes(suspects, equation, broken.origin);
}

}  // namespace

bool holds(const DimConstraint& constraint, const Sizes& sizes) {
  try {
    return constraint.left.evaluate(sizes) == constraint.right.evaluate(sizes);
  } catch (const Error&) {
    return false;  // overflow, or a division by zero
  }
}

std::string size_advice(const Function& main, const Sizes& sizes) {
  for (const DimConstraint& constraint : main.constraints) {
    const std::vector<std::string> symbols = symbols_of(constraint);
    const bool known = std::ranges::all_of(symbols, [&](const auto& name) { return sizes.contains(name); });
    if (known && !holds(constraint, sizes)) return describe(main, constraint, sizes);
  }
  return "";
}

}  // namespace gantry
