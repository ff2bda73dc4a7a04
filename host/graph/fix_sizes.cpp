#include "host/graph/fix_sizes.h"

#include <fmt/ranges.h>

#include <algorithm>
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

  std::map<std::string, GivenSize> run() {
    for (const auto& [name, shape] : given_.shapes) {
      if (is_dimension(name, shape)) {
        fix_named(name, shape.front());
      } else {
        fix_symbols(input(name), shape);
      }
    }
    for (const auto& [name, size] : given_.sizes) fix_named(name, size);
    for (const auto& [name, shape] : given_.shapes) {
      if (!is_dimension(name, shape)) check(input(name), shape);
    }
    return sizes_;
  }

 private:
  /// A size for what is no input, but a dimension of one.
  bool is_dimension(const std::string& name, const std::vector<GivenSize>& shape) const {
    return shape.size() == 1 && std::ranges::none_of(inputs_, [&](const OpenInput& each) { return each.name == name; }) &&
           symbols_.contains(symbol_of(name));
  }

  const std::string& symbol_of(const std::string& name) const {
    const auto named = names_.find(name);
    return named == names_.end() ? name : named->second;
  }

  const OpenInput& input(const std::string& name) const {
    std::vector<std::string> names;
    for (const OpenInput& each : inputs_) {
      if (each.name == name) return each;
      names.push_back(each.name);
    }
    user_error("there is no input '{}' to give a shape to; the model's inputs are: {}{}", name,
               fmt::join(names, ", "),
               symbols_.empty() ? "" : fmt::format("; their dimensions without a fixed size are: {}", fmt::join(symbols_, ", ")));
  }

  void fix(const std::string& symbol, const GivenSize& size) {
    if (size.range.low < 0) user_error("the size given for '{}' is negative ({})", symbol, to_string(size));
    if (size.range.low > size.range.high) user_error("the range given for '{}' is empty ({})", symbol, to_string(size));
    const auto [known, fresh] = sizes_.try_emplace(symbol, size);
    if (!fresh && known->second != size)
      user_error("the shapes given make '{}' both {} and {}", symbol, to_string(known->second), to_string(size));
  }

  void fix_named(const std::string& name, const GivenSize& size) {
    const std::string& symbol = symbol_of(name);
    if (symbols_.contains(symbol)) return fix(symbol, size);
    user_error("--dim {}={}: the model's inputs have no dimension '{}'; {}", name, to_string(size), name,
               symbols_.empty()
                   ? "all are fixed"
                   : fmt::format("those without a fixed size are: {}", fmt::join(symbols_, ", ")));
  }

  void fix_symbols(const OpenInput& input, const std::vector<GivenSize>& shape) {
    if (shape.size() != input.shape.size()) {
      user_error("the shape given for input '{}' has {} dimensions, but the model's has {}", input.name,
                 shape.size(), input.shape.size());
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i].range.low < kOpenSize) {
        user_error("the shape given for input '{}' has a negative dimension ({})", input.name,
                   to_string(shape[i]));
      }
      if (!shape[i].open() && input.shape[i].is_symbol()) fix(input.shape[i].str(), shape[i]);
    }
  }

  /// Dimensions that are no symbols must come to what is given.
  void check(const OpenInput& input, const std::vector<GivenSize>& shape) const {
    const std::map<std::string, Dim> sizes = size_bindings(sizes_);
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i].open() || input.shape[i].is_symbol()) continue;
      const Dim dim = input.shape[i].substitute(sizes);
      if (!dim.is_constant()) {
        user_error("the shape given for input '{}' has {} at axis {}, which is {} in the model: give {} with "
                   "--dim instead",
                   input.name, to_string(shape[i]), i, dim.str(), fmt::join(dim.symbols(), " and "));
      }
      if (dim.value() >= shape[i].range.low && dim.value() <= shape[i].range.high) continue;
      user_error("the shape given for input '{}' has {} at axis {}, but the model fixes it to {}", input.name,
                 to_string(shape[i]), i, dim.str());
    }
  }

  const GivenSizes& given_;
  const std::vector<OpenInput>& inputs_;
  const std::map<std::string, std::string>& names_;
  std::set<std::string> symbols_;
  std::map<std::string, GivenSize> sizes_;
};

}  // namespace

std::string to_string(const GivenSize& size) {
  if (size.open()) return "?";
  return size.fixed() ? fmt::format("{}", size.range.low) : to_string(size.range);
}

std::vector<GivenSize> given_shape(const std::vector<int64_t>& sizes) {
  return {sizes.begin(), sizes.end()};
}

std::map<std::string, GivenSize> given_sizes(const GivenSizes& given, const std::vector<OpenInput>& inputs,
                                             const std::map<std::string, std::string>& symbols) {
  return SizeFixer(given, inputs, symbols).run();
}

std::map<std::string, Dim> size_bindings(const std::map<std::string, GivenSize>& sizes) {
  std::map<std::string, Dim> bindings;
  for (const auto& [symbol, size] : sizes)
    bindings.emplace(symbol, size.fixed() ? Dim(size.range.low) : Dim::symbol(symbol, size.range));
  return bindings;
}

}  // namespace gantry
