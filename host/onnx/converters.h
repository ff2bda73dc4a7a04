// The tables of converters, a family each, and their lookup.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/onnx/node_import.h"

namespace gantry {

/// Converts one node: adds ops and sets results.
using Convert = void (*)(NodeImport&);
struct Converter {
  std::string_view op;
  int64_t since;  ///< first opset (of the op's domain) whose definition of the op this follows
  Convert convert;
  std::string_view domain = {};  ///< empty: ai.onnx
};
using ConverterTable = std::vector<Converter>;
/// The domain of ONNX Runtime's own ops.
inline constexpr std::string_view kMicrosoft = "com.microsoft";
/// The domain of ONNX's training ops.
inline constexpr std::string_view kTraining = "ai.onnx.preview.training";

void add_elementwise_converters(ConverterTable& table);
void add_activation_converters(ConverterTable& table);
void add_cast_converters(ConverterTable& table);
void add_quantize_converters(ConverterTable& table);
void add_integer_converters(ConverterTable& table);
void add_qlinear_converters(ConverterTable& table);
void add_quantized_product_converters(ConverterTable& table);
void add_nbits_converters(ConverterTable& table);
void add_expert_converters(ConverterTable& table);
void add_bnb4_converters(ConverterTable& table);
void add_qattention_converters(ConverterTable& table);
void add_conv_converters(ConverterTable& table);
void add_pool_converters(ConverterTable& table);
void add_matmul_converters(ConverterTable& table);
void add_norm_converters(ConverterTable& table);
void add_reduce_converters(ConverterTable& table);
void add_shape_converters(ConverterTable& table);
void add_slice_converters(ConverterTable& table);
void add_index_converters(ConverterTable& table);
void add_scatter_converters(ConverterTable& table);
void add_selection_converters(ConverterTable& table);
void add_einsum_converters(ConverterTable& table);
void add_resize_converters(ConverterTable& table);
void add_recurrent_converters(ConverterTable& table);
void add_quantized_lstm_converters(ConverterTable& table);
void add_control_converters(ConverterTable& table);
void add_attention_converters(ConverterTable& table);
void add_loss_converters(ConverterTable& table);
void add_linear_attention_converters(ConverterTable& table);
void add_sample_converters(ConverterTable& table);
void add_signal_converters(ConverterTable& table);
void add_scan_converters(ConverterTable& table);
void add_loop_converters(ConverterTable& table);
void add_sequence_converters(ConverterTable& table);
void add_training_converters(ConverterTable& table);
void add_gradient_converters(ConverterTable& table);
void add_window_converters(ConverterTable& table);
void add_random_converters(ConverterTable& table);
void add_text_converters(ConverterTable& table);
void add_image_converters(ConverterTable& table);
void add_tfidf_converters(ConverterTable& table);
void add_classical_converters(ConverterTable& table);
void add_svm_converters(ConverterTable& table);
void add_tree_converters(ConverterTable& table);
void add_microsoft_converters(ConverterTable& table);
void add_microsoft_fused_converters(ConverterTable& table);
void add_microsoft_attention_converters(ConverterTable& table);
void add_microsoft_plain_converters(ConverterTable& table);
void add_microsoft_rotary_converters(ConverterTable& table);
void add_crop_converters(ConverterTable& table);
void add_padding_converters(ConverterTable& table);
void add_diffusion_converters(ConverterTable& table);
void add_gated_converters(ConverterTable& table);

/// By domain, then by op, then by opset.
const ConverterTable& all_converters();
/// The converter of the newest definition not above `opset` of the domain (empty: ai.onnx); null if there is none.
Convert find_converter(std::string_view domain, std::string_view op, int64_t opset);
/// The first opset whose definition of ai.onnx's op is known; 0 if none is.
int64_t first_opset_of(std::string_view op);

}  // namespace gantry
