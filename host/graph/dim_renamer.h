// Symbols of their own for the symbolic dimensions of types and attributes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "host/graph/attrs.h"
#include "host/graph/dim.h"
#include "host/graph/type.h"

namespace gantry {

/// Gives each distinct symbolic dimension a symbol, "dim.0", "dim.1", … in the order in which it meets them:
/// what differs only in such dimensions reads the same behind it.
class DimRenamer : public PartialAttrVisitor {
 public:
  Dim rename(const Dim& dim) {
    if (dim.is_constant()) return dim;
    auto [entry, is_new] = symbols_.try_emplace(dim.str(), Dim());
    if (is_new) {
      entry->second = Dim::symbol("dim." + std::to_string(originals_.size()));
      originals_.emplace(entry->second.str(), dim);
    }
    return entry->second;
  }
  TensorType rename(const TensorType& type) {
    TensorType renamed = type;
    for (Dim& dim : renamed.shape) dim = rename(dim);
    return renamed;
  }
  std::shared_ptr<const Attrs> rename(const Attrs& attrs) {
    auto renamed = attrs.clone();
    renamed->fields(*this);
    return renamed;
  }

  /// What stands for each symbol.
  const std::map<std::string, Dim>& originals() const { return originals_; }

  using PartialAttrVisitor::operator();
  void operator()(std::string_view, Dim& value) override { value = rename(value); }
  void operator()(std::string_view, Shape& value) override {
    for (Dim& dim : value) dim = rename(dim);
  }

 private:
  std::map<std::string, Dim> symbols_;
  std::map<std::string, Dim> originals_;
};

}  // namespace gantry
