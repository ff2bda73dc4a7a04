// Nodes and inputs of a model that are wrong, for one message.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "host/support/error.h"

namespace gantry {

/// A user error of a node that is wrong whatever shapes the model is given: it reads a name that nothing
/// defines, defines one again, has more inputs or outputs than its op, or lies too deep in others.
class BrokenModel : public Error {
 public:
  explicit BrokenModel(const std::string& message) : Error(ErrorKind::kUser, message) {}
};

/// A user error of one node or several, or of inputs, a text each.
class MalformedModel : public Error {
 public:
  /// `what` they are, where they are several: "nodes". `broken`: one of them is a BrokenModel's.
  MalformedModel(std::vector<std::string> texts, std::string_view what, bool broken);
  const std::vector<std::string>& texts() const { return texts_; }
  bool broken() const { return broken_; }

 private:
  std::vector<std::string> texts_;
  bool broken_;
};

/// Whether the error is a BrokenModel, or holds one.
bool is_broken(const Error& error);
/// Throws the error with other texts, as many as texts_of() gives: where it is.
[[noreturn]] void throw_retold(const Error& error, std::vector<std::string> texts);

/// Those of MalformedModel, or the message.
std::vector<std::string> texts_of(const Error& error);

/// What has failed of them.
class Malformed {
 public:
  /// `error`: one that names its node or input, or MalformedModel.
  void add(const Error& error);
  bool empty() const { return texts_.empty(); }
  /// Throws MalformedModel if there was any; `what` as there.
  void throw_any(std::string_view what) const;

 private:
  std::vector<std::string> texts_;
  bool broken_ = false;
};

/// What is wrong with a model, of whose parts one is read after the other.
class WrongParts {
 public:
  /// Runs `read`, whose user error is kept: `what` it reads, as MalformedModel has it.
  void run(const char* what, const std::function<void()>& read);
  /// Throws MalformedModel if there was any.
  void throw_any() const { malformed_.throw_any(what_); }

 private:
  Malformed malformed_;
  std::string what_;
};

/// Whether the message begins with the node's name, or has it behind "node".
bool names_node(const std::string& message, const std::string& node);

}  // namespace gantry
