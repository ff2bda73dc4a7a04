// The graph passes. Each has a file of its own; host/passes/pipeline.def lists them in order, with the forms
// of what models write in several ways (host/passes/canonicalize.h).
//
// Each may run again on a graph that it, or any other, has been through: what is rewritten already, and the
// groups of fuse_ops, it leaves as they are. Text of a graph at any stage can so go through all of them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/graph/graph.h"
#include "host/passes/pass.h"

namespace gantry {

/// For CPUs, which convert f16 and bf16 faster than they compute in them: nodes of such tensors compute in
/// f32, from constants in f32, and round only where the model itself casts or returns them. Results differ
/// from those of rounding after each node by being closer to the exact ones.
///   %1 = exp(%0: f16); %2 = sqrt(%1)   =>   %a = cast(%0, f32); %b = exp(%a); %c = sqrt(%b); %2 = cast(%c,
///   f16)
void legalize_floats(Graph& graph, PassContext& context);

/// Inference forms: batch_norm -> multiply and add of constants; dropout, identity and casts to the
/// same type -> nothing.
///   %1 = nn.batch_norm(%0, @s, @b, @m, @v)   =>   %1 = multiply(%0, @a); %2 = add(%1, @c)
void simplify_inference(Graph& graph, PassContext& context);

/// Nodes whose inputs are all constant (or that have none) are evaluated; views share their input's bytes.
/// Results of more than four times their inputs' bytes plus 64 MiB stay as nodes, and so does what has
/// symbolic attributes. With PassContext::small, what would make the constants larger together stays too, but for
/// padding (host/passes/weight_growth.h): expansions, tables, copies of a weight that is needed as it is.
///   %0 = add(const(f32, [1], [1]), const(f32, [1], [2])); %1 = add(%x, %0)   =>   %1 = add(%x, const(f32,
///   [1], [3]))
void fold_constant(Graph& graph, PassContext& context);

/// Same op, attributes and inputs: one node.
void eliminate_common_subexpr(Graph& graph, PassContext& context);

/// Scales of channels, beside convolutions and matrix products with constant weights, go into the weights; a bias
/// between them is scaled too. Leaves constant nodes.
///   %1 = nn.conv(%0, @w); %2 = multiply(%1, @s)   =>   %2 = nn.conv(%0, multiply(@w, reshape(@s)))
void fold_scale_axis(Graph& graph, PassContext& context);

/// Casts of casts that lost nothing become one; a cast to a wider type is made for each node whose kernel it can join.
///   %1 = cast(%0: f16, f32); %2 = cast(%1, i32)   =>   %2 = cast(%0, i32)
void canonicalize_cast(Graph& graph, PassContext& context);

/// With PassContext::fast_math: arithmetic is rearranged as if numbers were exact. Quotients by constants become
/// products, quotients by square roots products with rsqrt, chains of constants one. Leaves constant nodes.
///   %1 = divide(%x, @c)   =>   %1 = multiply(%x, reciprocal(@c))
void fast_math(Graph& graph, PassContext& context);

/// Drops nodes and constants whose results nothing uses.
void dead_code(Graph& graph, PassContext& context);

/// Reshapes of reshapes and transpositions of transpositions become one, or nothing. Outputs stay nodes of
/// their own. What alter_layout put down in PassContext::layouts is kept current.
///   %1 = transpose(%0, axes=[0, 2, 1]); %2 = transpose(%1, axes=[0, 2, 1]); %3 = exp(%2)   =>   %3 = exp(%0)
void simplify_movement(Graph& graph, PassContext& context);

/// Products of the same data with several constant weights, alike in all else and in the bias and the activation behind
/// them, become one with all weights side by side, where cutting the results out of it costs nothing
/// (host/passes/combine_parallel.h): branches of inception blocks, queries, keys and values of attention, products
/// with constant matrices, on either side, of batches.
///   %1 = nn.dense(%x, @a); %2 = nn.dense(%x, @b)   =>   %0 = nn.dense(%x, concatenate(@a, @b));
///                                                       %1 = strided_slice(%0, …); %2 = strided_slice(%0, …)
/// After alter_layout; leave constant nodes and dead ones.
void combine_parallel_conv2d(Graph& graph, PassContext& context);
void combine_parallel_dense(Graph& graph, PassContext& context);
void combine_parallel_batch_matmul(Graph& graph, PassContext& context);

/// softmax(scale * Q K^T + masks and biases) V becomes one nn.attention, which reads queries, keys and values
/// where the projections left them, through the transpositions, slices and reshapes between, and writes its
/// result as the transposition behind it would:
///   %1 = matmul(%q, transpose(%k)); %2 = nn.softmax(%1); %3 = matmul(%2, %v)   =>   %3 = nn.attention(%q,
///   %k, %v)
/// For targets whose kernels are loop nests on a CPU. Leaves constant nodes.
void recognize_attention(Graph& graph, PassContext& context);

/// Matrix products read the right operand before its transposition, which their kernels do as they pack it,
/// or do without where rows are few; before it is scaled, which is done to the product; and before each of
/// its matrices is repeated for several neighbours of the last batch axis (heads that share keys: "grouped
/// queries"), whose rows are multiplied together. For CPUs, after recognize_attention.
///   %1 = transpose(%k, axes=[0, 2, 1]); %2 = matmul(%q, %1)   =>   %2 = matmul(%q, %k, transpose_b=true)
///   %1 = multiply(%k, 0.5); %2 = matmul(%q, %1)   =>   %1 = matmul(%q, %k); %2 = multiply(%1, 0.5)
///   %1 = broadcast_to(%k (H, 1, D, N), (H, G, D, N)); %2 = reshape(%1, (H*G, D, N)); %3 = matmul(%q, %2)
///   =>   %3 = reshape(matmul(reshape(%q, (H, G*M, D)), reshape(%k, (H, D, N))), (H*G, M, N))
void fold_right_operands(Graph& graph, PassContext& context);

/// Products of the same data on tile registers (host/ops/tiles.h) that make queries, keys and values of one
/// nn.attention become one product, in whose rows the attention reads them: the data are split into parts
/// once, not for each:
///   %1 = nn.dense(%x, @a); %2 = nn.dense(%x, @b)   =>   %0 = nn.dense(%x, concatenate(@a, @b));
///   %3 = nn.attention(%1, %2, %v)                       %3 = nn.attention(%0, %0, %v)
/// After alter_layout; leaves constant nodes and dead ones.
void combine_projections(Graph& graph, PassContext& context);

/// Layouts and packed weights for the target (host/passes/alter_layout.h), by PassContext::forms.
void alter_layout(Graph& graph, PassContext& context);

/// Groups nodes into fused ops by their fusion classes:
///  - elementwise and broadcast nodes of the same shape join the out_elementwise_fusable node or the
///  reduction (the
///    anchor) that they follow: convolution + bias + activation + residual addition, pooling + activation.
///    Where two anchors meet, the later one takes them;
///  - elementwise, broadcast and injective nodes join those that use them, and so they do a reduction along
///  whole
///    axes. Elementwise and broadcast ones also join an anchor's group where they feed what follows the
///    anchor; nothing joins the inputs of an anchor that is no reduction, but:
///  - index maps of one input (transpose, strided_slice, …, and views between them) join the op that copies
///  their
///    results into tiles (OpDef::stages_input);
///  - arithmetic joins the op that copies its results before it computes (OpDef::copies_input): the gates of
///    squeeze and excitation before a 1x1 convolution on tile registers. Not behind an index map, whose
///    kernel it can be part of;
///  - not where a value would be computed more often than it has elements: before broadcasting, padding and
///  window
///    reductions; and ops that choose among several inputs take in but a step of arithmetic;
///  - opaque nodes, views and nodes with several results stay alone;
///  - what PassContext::apart keeps apart: a node that one of its readers is to be kept from joins none.
/// Only the last node of a group is read outside: a node joins only the group that holds all of its users.
/// After it, every node of main is a `fused` op with one body (host/passes/fuse_ops.h), an opaque op, or a
/// view. (Without PassContext::fuse, every node gets a group of its own.) PassContext::fusion is told which
/// rules decided.
///   %1 = nn.conv(%x, @w); %2 = nn.relu(%1)   =>   %2 = fused(%x, @w) fn @nn.conv_nn.relu(%x: …, %w: …) -> …
///   { … }
/// Groups that are there already stay as they are.
void fuse_ops(Graph& graph, PassContext& context);

/// Says for every node of a fused graph where it runs, on a board with a GPU: on the GPU, unless one of its
/// operations is a loop nest written by hand for CPUs only, or it reads and writes more than a kernel
/// there takes (host/passes/place_devices.h). Every dtype and function of tensor expressions
/// works there. Small nodes between nodes on the CPU (at most 16 Ki elements, inputs from the CPU, results
/// read only there or returned) stay on the CPU, which saves two copies. Views follow their input. A value
/// that crosses gets a device_copy, one a value and direction (host/ops/device_copy.h). Parameters and
/// constants need none: they are at hand on both sides, and outputs may lie on either; the runtime moves
/// them.
///   %1 = nn.conv2d(%x, @w); %2 = host_only(%1)   =>   %1 = nn.conv2d(%x, @w) on gpu
///                                                     %3 = device_copy(%1, destination=cpu)
///                                                     %2 = host_only(%3) on cpu
/// A graph in which a node has its place already stays as it is.
void place_devices(Graph& graph, PassContext& context);

/// Memory plan of a function in which every node is a kernel or a view, or binds symbols. A node that binds symbols
/// ends a stretch: sizes that depend on them are known in the next one.
struct MemoryPlan {
  struct Slot {
    Dim offset;  ///< bytes in the workspace, 64-byte aligned; of what is kept, in its stretch's kept memory
    Dim bytes;
    std::optional<size_t> kept_by = std::nullopt;  ///< the stretch that makes it, if a later one reads it
  };
  struct Stretch {
    Dim workspace_bytes, kept_bytes;
  };
  /// Values that live in the workspace (not parameters, constants or outputs). Views share their input's
  /// slot.
  std::map<const Value*, Slot> slots;
  /// Scratch of each node, in the order asked for.
  std::map<const Node*, std::vector<Slot>> scratch;
  Dim workspace_bytes;  ///< of the first stretch
  /// All of them; one where nothing binds symbols.
  std::vector<Stretch> stretches;
};
/// Places values so that those alive at once do not overlap. `scratch_bytes` gives each node's scratch
/// buffers, alive while it runs. Static sizes: host/passes/memory_placement.h; symbolic ones share slots
/// whose size is the maximum of their users'. Each stretch has the whole workspace again; what later ones read is
/// kept. `here`: plans one memory of several, for the results and
/// scratch of the nodes for which it is true.
MemoryPlan plan_memory(const Function& function,
                       const std::function<std::vector<Dim>(const Node&)>& scratch_bytes,
                       const std::function<bool(const Node&)>& here = {});

}  // namespace gantry
