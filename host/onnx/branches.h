// The two functions that a node `if` calls.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/onnx/carried.h"
#include "host/onnx/importer.h"
#include "host/onnx/node_import.h"

namespace gantry {

/// A branch, or why there can be none for the shapes that it is given.
struct Branch {
  std::optional<ImportedBody> body;
  std::vector<Carried> results;  ///< as which they are outputs
  std::vector<std::string> errors = {};
  bool broken = false;  ///< one of them is a BrokenModel's, so that there is none for any shapes
};

/// Whether tensors that both give, one for one, differ in rank.
bool ranks_differ(const ImportedBody& then_body, const ImportedBody& else_body);

/// In place of a branch that cannot be for the shapes that it is given: models for inputs of several sizes have one for each.
/// A run that takes it ends with the error. Results like those of the other branch.
Branch impossible_branch(NodeImport& n, const Branch& other, const std::string& why);

/// Adds the node; what its results stand for, one for each output of the branches' graphs. Dimensions that the branches do not
/// have in common become symbols. Throws Unsupported where results differ in rank, element type or as what they are carried.
std::vector<Binding> add_branches(NodeImport& n, Value* condition, const Branch& then_branch, const Branch& else_branch);

}  // namespace gantry
