// What ops of ai.onnx.ml have in common: features, and what becomes of scores once they are computed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/onnx/term.h"

namespace gantry {

inline constexpr std::string_view kClassical = "ai.onnx.ml";

/// f64 stays, all else becomes f32.
Term as_float(const Term& x);
/// The node's data as floats, (N, features); a vector counts as a row.
Term rows_of_features(NodeImport& n);
/// A vector of the dtype of `x`.
Term numbers_like(const Term& x, const std::vector<double>& values);
/// The transform that the node's attribute `post_transform` names, of scores (N, classes).
Term post_transformed(const Term& scores, const std::string& transform);
/// The node's labels at those positions: of `attribute` (classlabels_int64s or classlabels_ints), or texts.
Term labels_at(const Term& positions, const char* attribute);
/// How many labels the node has.
int64_t label_count(NodeImport& n, const char* attribute);
/// Positions of the largest scores of each row, the first of those that are equal.
Term best_classes(const Term& scores);
/// The node's label of each row of scores (N, classes): that of the largest one. Of one score and the one
/// label 1 it says whether the score is positive, 1 or 0, as ONNX Runtime has it; another one label is
/// unsupported.
Term chosen_labels(const Term& scores, const char* attribute);

}  // namespace gantry
