// The families of ops; op_set() calls each once.
#pragma once

#include "host/ops/op.h"

namespace gantry {

void add_unary_ops(OpSet& set);
void add_activation_ops(OpSet& set);
void add_broadcast_ops(OpSet& set);
void add_conv_ops(OpSet& set);
void add_winograd_ops(OpSet& set);
void add_tile_ops(OpSet& set);
void add_conv_transpose_ops(OpSet& set);
void add_dense_ops(OpSet& set);
void add_norm_ops(OpSet& set);
void add_softmax_ops(OpSet& set);
void add_attention_ops(OpSet& set);
void add_pool_ops(OpSet& set);
void add_reduce_ops(OpSet& set);
void add_arg_reduce_ops(OpSet& set);
void add_view_ops(OpSet& set);
void add_movement_ops(OpSet& set);
void add_index_ops(OpSet& set);
void add_scatter_ops(OpSet& set);
void add_create_ops(OpSet& set);
void add_cumsum_ops(OpSet& set);
void add_selection_ops(OpSet& set);
void add_tree_ops(OpSet& set);
void add_shape_data_ops(OpSet& set);
void add_axes_matrix_ops(OpSet& set);
void add_sort_ops(OpSet& set);
void add_bind_dims_op(OpSet& set);
void add_text_ops(OpSet& set);
void add_image_ops(OpSet& set);
void add_device_copy_op(OpSet& set);
void add_resize_ops(OpSet& set);
void add_recurrent_ops(OpSet& set);
void add_linear_attention_ops(OpSet& set);
void add_grid_sample_ops(OpSet& set);
void add_roi_ops(OpSet& set);
void add_col2im_ops(OpSet& set);
void add_max_positions_ops(OpSet& set);
void add_det_ops(OpSet& set);
void add_random_ops(OpSet& set);

}  // namespace gantry
