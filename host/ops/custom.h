// custom: a call of a kernel that the user wrote.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/graph/attrs.h"
#include "host/graph/graph.h"
#include "host/graph/op_handle.h"
#include "host/loops/custom_kernel.h"

namespace gantry {

class OpSet;

/// custom(inputs…): what the kernel of a custom op makes of them. Types of the results are said here: the
/// op's type rule was asked when the model was read.
struct CustomAttrs : AttrsOf<CustomAttrs> {
  std::string op;              ///< "my.domain::MyOp"
  std::string attributes;      ///< of the user's node: to_string(std::vector<CustomAttribute>)
  std::string kernel;          ///< the beginning of its code's digest
  std::string types;           ///< of the results: "f32, i64"
  std::vector<int64_t> ranks;  ///< of the results
  Shape dims;                  ///< of all results, one result after another
  Dim scratch;                 ///< bytes of memory that the kernel needs beside its tensors
  Shape blocks;                ///< of its kernel for GPUs: of a launch, along x, y and z
  Shape sizes;                 ///< the integers that this is given
  /// Null in a graph that was read from text, until bind_custom_ops() has found it (host/custom_ops/custom_ops.h).
  /// No part of the text.
  std::shared_ptr<const CustomKernel> code;
  void fields(AttrVisitor& visit) override {
    visit.always("op", op);
    visit("attributes", attributes);
    visit.always("kernel", kernel);
    visit.always("types", types);
    visit.always("ranks", ranks);
    visit.always("dims", dims);
    visit("scratch", scratch);
    visit("blocks", blocks);
    visit("sizes", sizes);
  }
};

namespace op {
inline constexpr Op<CustomAttrs> custom{"custom"};
}  // namespace op

/// Attributes of a node whose results are of these types.
std::shared_ptr<CustomAttrs> custom_attrs(std::shared_ptr<const CustomKernel> code,
                                          const std::vector<TensorType>& results,
                                          const std::vector<CustomAttribute>& attributes, const Dim& scratch);
/// Whether the op's code has a kernel for GPUs that this node can call: each of its inputs is there, is
/// another value than the others, and lies in memory.
bool calls_gpu_kernel(const Node& node);
/// How much of a digest stands in the text.
std::string short_digest(const CustomKernel& kernel);

void add_custom_op(OpSet& set);

}  // namespace gantry
