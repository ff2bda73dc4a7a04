// Which nodes change the order of a tensor's bytes because alter_layout chose another one, and for whom.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// The order that somebody wants a tensor in.
enum class LayoutWish : uint8_t {
  kChannelsLast,    ///< of an image: (N, spatial…, C)
  kModelOrder,      ///< of an image: (N, C, spatial…), as the model has it
  kPackedWeight,    ///< of a weight: as the reader's form wants it
  kDilationPhases,  ///< of an image: the phases of a dilation one after another, or back
};
/// "channels last", …
std::string_view name_of(LayoutWish wish);

struct LayoutConversion {
  LayoutWish wish{};
  const OpBase* reader = nullptr;   ///< who wanted it first; null: the graph returns the tensor
  std::vector<std::string> origin;  ///< nodes of the model that the reader comes from
};

/// Conversions are known by their attributes, which all copies of a node share, and which the record keeps:
/// later passes may clone a node, or put it into the body of a kernel.
class LayoutRecord {
 public:
  void put(const Node& node, LayoutConversion conversion) { by_attrs_[node.attrs] = std::move(conversion); }
  /// `made` does what `then` did with the result of `first`.
  void merge(const Node& first, const Node& then, const Node& made);
  /// Null for a node that is none.
  const LayoutConversion* find(const Node& node) const;

 private:
  std::map<std::shared_ptr<const Attrs>, LayoutConversion> by_attrs_;
};

}  // namespace gantry
