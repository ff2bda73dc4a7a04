#include "host/onnx/converters.h"

#include <algorithm>
#include <tuple>

namespace gantry {
namespace {

auto order_of(const Converter& c) {
  return std::tuple(c.domain, c.op, c.since);
}

ConverterTable make_table() {
  ConverterTable table;
  add_elementwise_converters(table);
  add_activation_converters(table);
  add_cast_converters(table);
  add_quantize_converters(table);
  add_integer_converters(table);
  add_qlinear_converters(table);
  add_quantized_product_converters(table);
  add_nbits_converters(table);
  add_expert_converters(table);
  add_bnb4_converters(table);
  add_qattention_converters(table);
  add_conv_converters(table);
  add_pool_converters(table);
  add_matmul_converters(table);
  add_norm_converters(table);
  add_reduce_converters(table);
  add_shape_converters(table);
  add_slice_converters(table);
  add_index_converters(table);
  add_scatter_converters(table);
  add_selection_converters(table);
  add_einsum_converters(table);
  add_resize_converters(table);
  add_recurrent_converters(table);
  add_quantized_lstm_converters(table);
  add_control_converters(table);
  add_attention_converters(table);
  add_loss_converters(table);
  add_linear_attention_converters(table);
  add_sample_converters(table);
  add_signal_converters(table);
  add_scan_converters(table);
  add_loop_converters(table);
  add_sequence_converters(table);
  add_training_converters(table);
  add_gradient_converters(table);
  add_window_converters(table);
  add_random_converters(table);
  add_text_converters(table);
  add_image_converters(table);
  add_tfidf_converters(table);
  add_classical_converters(table);
  add_svm_converters(table);
  add_tree_converters(table);
  add_microsoft_converters(table);
  add_microsoft_fused_converters(table);
  add_microsoft_attention_converters(table);
  add_microsoft_plain_converters(table);
  add_microsoft_rotary_converters(table);
  add_crop_converters(table);
  add_padding_converters(table);
  add_diffusion_converters(table);
  add_gated_converters(table);
  std::sort(table.begin(), table.end(),
            [](const Converter& a, const Converter& b) { return order_of(a) < order_of(b); });
  return table;
}

}  // namespace

const ConverterTable& all_converters() {
  static const ConverterTable table = make_table();
  return table;
}

int64_t first_opset_of(std::string_view op) {
  const ConverterTable& table = all_converters();
  const auto first = std::find_if(table.begin(), table.end(), [&](const Converter& c) {
    return c.op == op && c.domain.empty();
  });
  return first == table.end() ? 0 : first->since;
}

Convert find_converter(std::string_view domain, std::string_view op, int64_t opset) {
  const ConverterTable& table = all_converters();
  auto above = std::upper_bound(table.begin(), table.end(), std::tuple(domain, op, opset),
                                [](const auto& key, const Converter& c) { return key < order_of(c); });
  if (above == table.begin()) return nullptr;
  const Converter& newest = *std::prev(above);
  return newest.op == op && newest.domain == domain ? newest.convert : nullptr;
}

}  // namespace gantry
