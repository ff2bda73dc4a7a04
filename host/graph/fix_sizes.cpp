#include "host/graph/fix_sizes.h"

#include <fmt/ranges.h>

#include <set>

#include "host/support/error.h"

namespace gantry {
namespace {

class SizeFixer {
 public:
  SizeFixer(const GivenSizes& given, const std::vector<OpenInput>& inputs,
            const std::map<std::string, std::string>& names)
      : given_(given), inputs_(inputs), names_(names) {
    for (const OpenInput& input : inputs) {
      for (const Dim& dim : input.shape) {
        for (std::string& name : dim.symbols()) symbols_.insert(std::move(name));
      }
    }
  }

  std::map<std::string, int64_t> run() {
    for (const auto& [name, shape] : given_.shapes) fix_symbols(input(name), shape);
    for (const auto& [name, size] : given_.sizes) fix_named(name, size);
    for (const auto& [name, shape] : given_.shapes) check(input(name), shape);
    return sizes_;
  }

 private:
  const OpenInput& input(const std::string& name) const {
    std::vector<std::string> names;
    for (const OpenInput& each : inputs_) {
      if (each.name == name) return each;
      names.push_back(each.name);
    }
    user_error("there is no input '{}' to give a shape to; the model's inputs are: {}", name,
               fmt::join(names, ", "));
  }

  void fix(const std::string& symbol, int64_t size) {
    if (size < 0) user_error("the size given for '{}' is negative ({})", symbol, size);
    const auto [known, fresh] = sizes_.try_emplace(symbol, size);
    if (!fresh && known->second != size)
      user_error("the shapes given make '{}' both {} and {}", symbol, known->second, size);
  }

  void fix_named(const std::string& name, int64_t size) {
    const auto named = names_.find(name);
    const std::string& symbol = named == names_.end() ? name : named->second;
    if (symbols_.contains(symbol)) return fix(symbol, size);
    user_error("--dim {}={}: the model's inputs have no dimension '{}'; {}", name, size, name,
               symbols_.empty()
                   ? "all are fixed"
                   : fmt::format("those without a fixed size are: {}", fmt::join(symbols_, ", ")));
  }

  void fix_symbols(const OpenInput& input, const std::vector<int64_t>& shape) {
    if (shape.size() != input.shape.size()) {
      user_error("the shape given for input '{}' has {} dimensions, but the model's has {}", input.name,
                 shape.size(), input.shape.size());
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < kOpenSize)
        user_error("the shape given for input '{}' has a negative dimension ({})", input.name, shape[i]);
      if (shape[i] != kOpenSize && input.shape[i].is_symbol()) fix(input.shape[i].str(), shape[i]);
    }
  }

  /// Dimensions that are no symbols must come to what is given.
  void check(const OpenInput& input, const std::vector<int64_t>& shape) const {
    const std::map<std::string, Dim> sizes(sizes_.begin(), sizes_.end());
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == kOpenSize) continue;
      const Dim dim = input.shape[i].substitute(sizes);
      if (!dim.is_constant()) {
        user_error("the shape given for input '{}' has {} at axis {}, which is {} in the model: fix {} with "
                   "--dim instead",
                   input.name, shape[i], i, dim.str(), fmt::join(dim.symbols(), " and "));
      }
      if (dim == Dim(shape[i])) continue;
      user_error("the shape given for input '{}' has {} at axis {}, but the model fixes it to {}", input.name,
                 shape[i], i, dim.str());
    }
  }

  const GivenSizes& given_;
  const std::vector<OpenInput>& inputs_;
  const std::map<std::string, std::string>& names_;
  std::set<std::string> symbols_;
  std::map<std::string, int64_t> sizes_;
};

}  // namespace

std::map<std::string, int64_t> fixed_sizes(const GivenSizes& given, const std::vector<OpenInput>& inputs,
                                           const std::map<std::string, std::string>& symbols) {
  return SizeFixer(given, inputs, symbols).run();
}

}  // namespace gantry
