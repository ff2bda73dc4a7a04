// Everything of a model that gantry does not support, for one message.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/support/unsupported.h"

namespace gantry {

/// One thing that is not supported, and who needs it.
struct UnsupportedFeature {
  UnsupportedKind kind;
  std::string what;                 ///< "NonZero (opset 16)", "LSTM: clip", "STRING"
  std::vector<std::string> places;  ///< other than nodes: "input 'x'"
  std::vector<std::string> nodes;
};

/// "op", "attribute", "element_type", …, for JSON.
std::string_view name_of(UnsupportedKind kind);

/// Thrown by the import of a model that gantry does not support.
class UnsupportedModel : public Error {
 public:
  UnsupportedModel(std::vector<UnsupportedFeature> features, const std::string& message)
      : Error(ErrorKind::kUser, message), features_(std::move(features)) {}
  const std::vector<UnsupportedFeature>& features() const { return features_; }

 private:
  std::vector<UnsupportedFeature> features_;
};

/// What an import met that is not supported.
class UnsupportedReport {
 public:
  /// `what` as in UnsupportedFeature. Whoever is named twice for one thing is listed once.
  void add_node(UnsupportedKind kind, const std::string& what, const std::string& node);
  void add_place(UnsupportedKind kind, const std::string& what, const std::string& place);
  bool empty() const { return features_.empty(); }
  /// By kind, then by name.
  std::vector<UnsupportedFeature> features() const;
  /// "uses what gantry does not support:", a line a feature with all that need it, and what to do.
  std::string text() const;

 private:
  UnsupportedFeature& entry(UnsupportedKind kind, const std::string& what);
  std::map<std::pair<UnsupportedKind, std::string>, UnsupportedFeature> features_;
};

}  // namespace gantry
