// Passes that give one form to what models write in several ways. Each has a file of its own, and leaves unused
// nodes to dead_code and constant ones to fold_constant.
#pragma once

#include "host/passes/pass.h"

namespace gantry {

/// Matrix products with constant weights are dense nodes, as the importer makes those whose weights are
/// constant in the model: others are dequantised, unpacked or turned first, and constant once fold_constant
/// has been there.
///   matmul(%x, @w (K, N))   =>   nn.dense(%x, @w)
///   matmul(%x, @w (N, K), transpose_b=true)   =>   nn.dense(%x, transpose(@w))
void make_weight_products_dense(Graph& graph, PassContext& context);

/// Convolutions whose windows cover their whole images become dense nodes between views:
///   nn.conv(%x (N, I, 7, 7), @w (O, I, 7, 7))
///     =>   reshape(nn.dense(reshape(%x, (N, I*49)), @w'), (N, O, 1, 1))
void make_whole_convolutions_dense(Graph& graph, PassContext& context);

/// Where windows cover the last axes of images of few channels, those are channels (text, a row of features a
/// word; spectrograms):
///   nn.conv(%x (N, 1, L, 100), @w (O, 1, k, 100))   =>   reshape(nn.conv(%x' (N, 100, L), @w' (O, 100, k)),
///   …)
void merge_covered_axes(Graph& graph, PassContext& context);

/// Convolutions lose the taps that meet padding wherever the window stands.
void trim_windows(Graph& graph, PassContext& context);

/// Windows lose the last spatial axes of images that are one element wide:
///   nn.conv(%x (N, I, L, 1), @w (O, I, k, 1))   =>   reshape(nn.conv(reshape(%x), reshape(@w)), (N, O, L',
///   1))
void drop_unit_windows(Graph& graph, PassContext& context);

/// Maxima over large windows are taken along one axis, then along the others.
void split_max_windows(Graph& graph, PassContext& context);

/// Transposed convolutions with constant weights become convolutions, whose output channels hold the results
/// of all remainders of the stride, and an interleaving of them.
void expand_conv_transpose(Graph& graph, PassContext& context);

/// Elementwise nodes move before a view, to the node that made its bytes, so that they can join its kernel:
///   sigmoid(reshape(%dense))   =>   reshape(sigmoid(%dense))
void move_elementwise_before_views(Graph& graph, PassContext& context);

/// Layer normalisation written out as means, differences and a square root becomes nn.layer_norm.
void recognize_layer_norm(Graph& graph, PassContext& context);

/// 0.5 x (1 + erf(x / sqrt(2))) in steps, also as x (0.5 + 0.5 erf(x / sqrt(2))), becomes nn.gelu.
void recognize_gelu(Graph& graph, PassContext& context);

/// Where channels are split, the first ones are instance-normalised, the others scaled and shifted by
/// constants, and both are put together again (the "IBN" blocks of Pan et al. 2018, arXiv:1807.09441),
/// nothing is split: the constants become vectors over all channels, and the normalisation passes the other
/// channels through.
void merge_split_norm(Graph& graph, PassContext& context);

}  // namespace gantry
