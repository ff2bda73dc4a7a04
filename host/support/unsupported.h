// What gantry does not support of an input that is well-formed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "host/support/error.h"

namespace gantry {

/// In the order in which lists name them.
enum class UnsupportedKind : uint8_t {
  kOp,
  kAttribute,     ///< an attribute, or a value of one
  kElementType,   ///< of a tensor
  kValueKind,     ///< what is no dense tensor: sequence, optional, map, sparse tensor
  kRunTimeValue,  ///< needed when compiling, but only known when the model runs
  kControlFlow,
  kOutput,  ///< an optional output that is not computed
};

/// A user error that somebody who reads a whole model can collect, to name all such things at once.
class Unsupported : public Error {
 public:
  /// `feature`: in a few words, the same for all that need it ("clip", "bool"); `message` is a whole one.
  Unsupported(UnsupportedKind what, std::string feature, const std::string& message)
      : Error(ErrorKind::kUser, message), what_kind_(what), feature_(std::move(feature)) {}
  UnsupportedKind what_kind() const { return what_kind_; }
  const std::string& feature() const { return feature_; }

 private:
  UnsupportedKind what_kind_;
  std::string feature_;
};

}  // namespace gantry
