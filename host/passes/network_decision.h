// What is decided for a network as a whole, beside how each of its nodes is computed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// A node by its op and the nodes of the model that it comes from.
struct NodeName {
  const OpBase* op = nullptr;
  std::vector<std::string> origin;

  bool operator==(const NodeName&) const = default;
};
NodeName name_of(const Node& node);

/// Whether what the maker makes is an input of the reader.
bool reads(const Node& reader, const Node& maker);

/// Two nodes, of which the second reads what the first makes, that fuse_ops keeps in different kernels. Where
/// they are in different ones anyway, nothing is to be done.
struct Separation {
  NodeName maker, reader;

  bool operator==(const Separation&) const = default;
  bool is_of(const Node& maker, const Node& reader) const;
};
/// Some node of the function reads what another makes, and they are of these names.
bool has_edge(const Function& function, const Separation& edge);

struct NetworkDecision {
  bool combined = false;  ///< products of the same data are one (host/passes/combine_parallel.h)
  std::vector<Separation> apart = {};

  bool operator==(const NetworkDecision&) const = default;
};

/// What is decided of a network, each by itself: records of tuning have a key for each.
enum class NetworkQuestion : uint8_t {
  kLayouts,   ///< in which order of axes images lie between its nodes
  kProducts,  ///< whether products of the same data are one
  kFusions,   ///< which nodes are kept apart that could share a kernel
};
std::span<const NetworkQuestion> network_questions();
/// "layouts", "products", "fusions".
std::string_view name_of(NetworkQuestion question);

/// A decision of a node that stands for it by its number in its function.
struct NumberedDecision {
  int64_t node = 0;
  Decision decision;

  bool operator==(const NumberedDecision&) const = default;
};

/// What records of tuning say to a question.
struct NetworkRecord {
  NetworkQuestion question{};
  std::string record;               ///< that decided it, "lab.db: record 17"; empty: none did
  std::vector<std::string> unused;  ///< those that do not decide it, and why
};

}  // namespace gantry
