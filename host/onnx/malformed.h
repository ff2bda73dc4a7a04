// Nodes of a model that are wrong, for one message.
#pragma once

#include <string>
#include <vector>

#include "host/support/error.h"

namespace gantry {

/// A user error of one node or several, a text each.
class MalformedNodes : public Error {
 public:
  explicit MalformedNodes(std::vector<std::string> texts);
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
};

/// What the conversion of nodes has failed of.
class Malformed {
 public:
  /// `error`: one that names its node, or MalformedNodes.
  void add(const Error& error);
  /// Throws MalformedNodes if there was any.
  void throw_any() const;

 private:
  std::vector<std::string> texts_;
};

/// Whether the message begins with the node's name, or has it behind "node".
bool names_node(const std::string& message, const std::string& node);

}  // namespace gantry
