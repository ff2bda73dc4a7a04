// How known elements pass through the ops that models compute shapes with (contents.h).
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "host/onnx/contents.h"

namespace gantry {

class NodeImport;

inline constexpr size_t kLongestContents = 1024;  ///< elements; longer tensors are data, not shapes

/// i64, i32 and bool: element types of tensors that shapes are computed with.
bool is_index_dtype(DType dtype);

/// The contents of a node's one result, or nothing where they cannot be said.
using ContentsResult = std::optional<Contents>;

/// Rules that only know of vectors and scalars read NodeImport::contents(), which has no others.
struct ContentsRule {
  std::string_view op;
  ContentsResult (*evaluate)(NodeImport&);
};

/// Ops that make, move and choose elements.
std::span<const ContentsRule> movement_contents_rules();
/// Ops that compute with them.
std::span<const ContentsRule> arithmetic_contents_rules();

}  // namespace gantry
