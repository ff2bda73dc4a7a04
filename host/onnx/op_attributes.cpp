// Read from the schemas of onnx 1.23 and ONNX Runtime 1.32.
#include "host/onnx/op_attributes.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include "host/onnx/converters.h"
#include "host/onnx/ml_scores.h"

namespace gantry {
namespace {

constexpr std::string_view kOnnx = "", kPreview = "ai.onnx.preview";

/// Ops that have the same attributes; words with a space between them. An attribute is in all definitions of the
/// ops, or in those of some opsets of the domain: "a:7" since 7, "a:-6" up to 6, "a:7-12" from one to the other.
struct Group {
  std::string_view domain, ops, attributes;
};

// clang-format off
constexpr Group kGroups[] = {
    {kOnnx, "Abs Ceil Exp Floor Log Max Mean Min Neg PRelu Reciprocal Relu Sigmoid Sqrt Sum Tanh",
     "consumed_inputs:-5"},
    {kOnnx, "Acos Acosh Asin Asinh Atan Atanh BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cos Cosh Det "
     "DynamicQuantizeLinear Erf Expand GlobalAveragePool GlobalMaxPool GreaterOrEqual HardSwish "
     "Identity IsNaN LessOrEqual MatMul MatMulInteger Mish NonZero Not OptionalGetElement "
     "OptionalHasElement QLinearMatMul Round SequenceAt SequenceConstruct SequenceErase SequenceInsert "
     "SequenceLength Sign Sin Sinh Size Softplus Softsign StringConcat Tan Tile Where",
     ""},
    {kOnnx, "Add Div Mul Sub",
     "axis:-6 broadcast:-6 consumed_inputs:-5"},
    {kOnnx, "AffineGrid",
     "align_corners"},
    {kOnnx, "And Equal Greater Less Or Pow Xor",
     "axis:-6 broadcast:-6"},
    {kOnnx, "ArgMax ArgMin",
     "axis keepdims select_last_index:12"},
    {kOnnx, "Attention",
     "is_causal kv_num_heads left_window_size:25 q_num_heads qk_matmul_output_mode "
     "right_window_size:25 scale softcap softmax_precision"},
    {kOnnx, "AveragePool",
     "auto_pad ceil_mode:10 count_include_pad:7 dilations:19 kernel_shape pads strides"},
    {kOnnx, "BatchNormalization",
     "consumed_inputs:-5 epsilon is_test:-6 momentum spatial:-8 training_mode:14"},
    {kOnnx, "Bernoulli",
     "dtype seed"},
    {kOnnx, "BitCast",
     "to"},
    {kOnnx, "BitShift",
     "direction"},
    {kOnnx, "BlackmanWindow HammingWindow HannWindow",
     "output_datatype periodic"},
    {kOnnx, "Cast",
     "round_mode:24 saturate:19 to"},
    {kOnnx, "CastLike",
     "round_mode:24 saturate:19"},
    {kOnnx, "CausalConvWithState",
     "activation"},
    {kOnnx, "Celu SwiGLU Swish ThresholdedRelu",
     "alpha"},
    {kOnnx, "CenterCropPad MeanVarianceNormalization",
     "axes"},
    {kOnnx, "Clip",
     "consumed_inputs:-5 max:-10 min:-10"},
    {kOnnx, "Col2Im",
     "dilations pads strides"},
    {kOnnx, "Compress Concat Flatten Gather GatherElements Hardmax LogSoftmax OneHot Scatter Softmax",
     "axis"},
    {kOnnx, "ConcatFromSequence",
     "axis new_axis"},
    {kOnnx, "Constant",
     "sparse_value:11 value value_float:12 value_floats:12 value_int:12 value_ints:12 value_string:12 "
     "value_strings:12"},
    {kOnnx, "ConstantOfShape",
     "value"},
    {kOnnx, "Conv ConvInteger QLinearConv",
     "auto_pad dilations group kernel_shape pads strides"},
    {kOnnx, "ConvTranspose",
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {kOnnx, "CumProd CumSum",
     "exclusive reverse"},
    {kOnnx, "DFT",
     "axis:-19 inverse onesided"},
    {kOnnx, "DeformConv",
     "dilations group kernel_shape offset_group pads strides"},
    {kOnnx, "DepthToSpace",
     "blocksize mode:11"},
    {kOnnx, "DequantizeLinear",
     "axis:13 block_size:21 output_dtype:23"},
    {kOnnx, "Dropout",
     "consumed_inputs:-5 is_test:-6 ratio:-11 seed:12"},
    {kOnnx, "Einsum",
     "equation"},
    {kOnnx, "Elu LeakyRelu",
     "alpha consumed_inputs:-5"},
    {kOnnx, "EyeLike",
     "dtype k"},
    {kOnnx, "GRU",
     "activation_alpha activation_beta activations clip direction hidden_size layout:14 "
     "linear_before_reset:3 output_sequence:-6"},
    {kOnnx, "GatherND",
     "batch_dims:12"},
    {kOnnx, "Gelu",
     "approximate"},
    {kOnnx, "Gemm",
     "alpha beta broadcast:-6 transA transB"},
    {kOnnx, "GlobalLpPool",
     "p"},
    {kOnnx, "GridSample",
     "align_corners mode padding_mode"},
    {kOnnx, "GroupNormalization",
     "epsilon num_groups stash_type:21"},
    {kOnnx, "HardSigmoid",
     "alpha beta consumed_inputs:-5"},
    {kOnnx, "If",
     "else_branch then_branch"},
    {kOnnx, "ImageDecoder",
     "pixel_format"},
    {kOnnx, "InstanceNormalization",
     "consumed_inputs:-5 epsilon"},
    {kOnnx, "IsInf",
     "detect_negative detect_positive"},
    {kOnnx, "LRN",
     "alpha beta bias size"},
    {kOnnx, "LSTM",
     "activation_alpha activation_beta activations clip direction hidden_size input_forget layout:14 "
     "output_sequence:-6"},
    {kOnnx, "LayerNormalization RMSNormalization SimplifiedLayerNormalization",
     "axis epsilon stash_type"},
    {kOnnx, "LinearAttention",
     "chunk_size kv_num_heads q_num_heads scale update_rule"},
    {kOnnx, "Loop SequenceMap",
     "body"},
    {kOnnx, "LpNormalization",
     "axis p"},
    {kOnnx, "LpPool",
     "auto_pad ceil_mode:18 dilations:18 kernel_shape p pads strides"},
    {kOnnx, "MaxPool",
     "auto_pad ceil_mode:10 dilations:10 kernel_shape pads storage_order:8 strides"},
    {kOnnx, "MaxRoiPool",
     "pooled_shape spatial_scale"},
    {kOnnx, "MaxUnpool",
     "kernel_shape pads strides"},
    {kOnnx, "MelWeightMatrix",
     "output_datatype"},
    {kOnnx, "Mod",
     "fmod"},
    {kOnnx, "Multinomial",
     "dtype sample_size seed"},
    {kOnnx, "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
     "ignore_index reduction"},
    {kOnnx, "NonMaxSuppression",
     "center_point_box"},
    {kOnnx, "Optional",
     "type"},
    {kOnnx, "Pad",
     "mode paddings:-1 pads:2-10 value:-10"},
    {kOnnx, "QuantizeLinear",
     "axis:13 block_size:21 output_dtype:21 precision:23 saturate:19"},
    {kOnnx, "RNN",
     "activation_alpha activation_beta activations clip direction hidden_size layout:14 "
     "output_sequence:-6"},
    {kOnnx, "RandomNormal",
     "dtype mean scale seed shape"},
    {kOnnx, "RandomNormalLike",
     "dtype mean scale seed"},
    {kOnnx, "RandomUniform",
     "dtype high low seed shape"},
    {kOnnx, "RandomUniformLike",
     "dtype high low seed"},
    {kOnnx, "Range",
     "stash_type:27"},
    {kOnnx, "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
     "ReduceSumSquare",
     "axes:-17 keepdims noop_with_empty_axes:18"},
    {kOnnx, "ReduceSum",
     "axes:-12 keepdims noop_with_empty_axes:13"},
    {kOnnx, "RegexFullMatch",
     "pattern"},
    {kOnnx, "Reshape",
     "allowzero:14 consumed_inputs:-4 shape:-4"},
    {kOnnx, "Resize",
     "antialias:18 axes:18 coordinate_transformation_mode:11 cubic_coeff_a:11 exclude_outside:11 "
     "extrapolation_value:11 keep_aspect_ratio_policy:18 mode nearest_mode:11"},
    {kOnnx, "ReverseSequence",
     "batch_axis time_axis"},
    {kOnnx, "RoiAlign",
     "coordinate_transformation_mode:16 mode output_height output_width sampling_ratio spatial_scale"},
    {kOnnx, "RotaryEmbedding",
     "interleaved num_heads rotary_embedding_dim"},
    {kOnnx, "STFT",
     "onesided"},
    {kOnnx, "ScaledTanh",
     "alpha beta"},
    {kOnnx, "Scan",
     "body directions:-8 num_scan_inputs scan_input_axes:9 scan_input_directions:9 scan_output_axes:9 "
     "scan_output_directions:9"},
    {kOnnx, "ScatterElements",
     "axis reduction:16"},
    {kOnnx, "ScatterND",
     "reduction:16"},
    {kOnnx, "Selu",
     "alpha consumed_inputs:-5 gamma"},
    {kOnnx, "SequenceEmpty",
     "dtype"},
    {kOnnx, "Shape",
     "end:15 start:15"},
    {kOnnx, "Shrink",
     "bias lambd"},
    {kOnnx, "Slice",
     "axes:-9 ends:-9 starts:-9"},
    {kOnnx, "SpaceToDepth",
     "blocksize mode:28"},
    {kOnnx, "Split",
     "axis num_outputs:18 split:-12"},
    {kOnnx, "SplitToSequence",
     "axis keepdims"},
    {kOnnx, "Squeeze Unsqueeze",
     "axes:-12"},
    {kOnnx, "StringNormalizer",
     "case_change_action is_case_sensitive locale stopwords"},
    {kOnnx, "StringSplit",
     "delimiter maxsplit"},
    {kOnnx, "TensorScatter",
     "axis mode"},
    {kOnnx, "TfIdfVectorizer",
     "max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes pool_int64s "
     "pool_strings weights"},
    {kOnnx, "TopK",
     "axis k:-9 largest:11 sorted:11"},
    {kOnnx, "Transpose",
     "perm"},
    {kOnnx, "Trilu",
     "upper"},
    {kOnnx, "Unique",
     "axis sorted"},
    {kOnnx, "Upsample",
     "height_scale:-6 mode scales:7-8 width_scale:-6"},
    {kClassical, "ArrayFeatureExtractor",
     ""},
    {kClassical, "Binarizer",
     "threshold"},
    {kClassical, "CategoryMapper",
     "cats_int64s cats_strings default_int64 default_string"},
    {kClassical, "FeatureVectorizer",
     "inputdimensions"},
    {kClassical, "Imputer",
     "imputed_value_floats imputed_value_int64s replaced_value_float replaced_value_int64"},
    {kClassical, "LabelEncoder",
     "classes_strings:-1 default_float:2 default_int64 default_string default_tensor:4 keys_floats:2 "
     "keys_int64s:2 keys_strings:2 keys_tensor:4 values_floats:2 values_int64s:2 values_strings:2 "
     "values_tensor:4"},
    {kClassical, "LinearClassifier",
     "classlabels_ints classlabels_strings coefficients intercepts multi_class post_transform"},
    {kClassical, "LinearRegressor",
     "coefficients intercepts post_transform targets"},
    {kClassical, "Normalizer",
     "norm"},
    {kClassical, "OneHotEncoder",
     "cats_int64s cats_strings zeros"},
    {kClassical, "SVMClassifier",
     "classlabels_ints classlabels_strings coefficients kernel_params kernel_type post_transform "
     "prob_a prob_b rho support_vectors vectors_per_class"},
    {kClassical, "SVMRegressor",
     "coefficients kernel_params kernel_type n_supports one_class post_transform rho support_vectors"},
    {kClassical, "Scaler",
     "offset scale"},
    {kClassical, "TreeEnsemble",
     "aggregate_function leaf_targetids leaf_weights membership_values n_targets nodes_falseleafs "
     "nodes_falsenodeids nodes_featureids nodes_hitrates nodes_missing_value_tracks_true nodes_modes "
     "nodes_splits nodes_trueleafs nodes_truenodeids post_transform tree_roots"},
    {kClassical, "TreeEnsembleClassifier",
     "base_values base_values_as_tensor:3 class_ids class_nodeids class_treeids class_weights "
     "class_weights_as_tensor:3 classlabels_int64s classlabels_strings nodes_falsenodeids "
     "nodes_featureids nodes_hitrates nodes_hitrates_as_tensor:3 nodes_missing_value_tracks_true "
     "nodes_modes nodes_nodeids nodes_treeids nodes_truenodeids nodes_values nodes_values_as_tensor:3 "
     "post_transform"},
    {kClassical, "TreeEnsembleRegressor",
     "aggregate_function base_values base_values_as_tensor:3 n_targets nodes_falsenodeids "
     "nodes_featureids nodes_hitrates nodes_hitrates_as_tensor:3 nodes_missing_value_tracks_true "
     "nodes_modes nodes_nodeids nodes_treeids nodes_truenodeids nodes_values nodes_values_as_tensor:3 "
     "post_transform target_ids target_nodeids target_treeids target_weights "
     "target_weights_as_tensor:3"},
    {kClassical, "ZipMap",
     "classlabels_int64s classlabels_strings"},
    {kPreview, "FlexAttention",
     "prob_mod scale score_mod softmax_precision"},
    {kTraining, "Adagrad",
     "decay_factor epsilon norm_coefficient"},
    {kTraining, "Adam",
     "alpha beta epsilon norm_coefficient norm_coefficient_post"},
    {kTraining, "Gradient",
     "xs y zs"},
    {kTraining, "Momentum",
     "alpha beta mode norm_coefficient"},
    {kMicrosoft, "Attention",
     "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes "
     "rotary_embedding_dim scale unidirectional"},
    {kMicrosoft, "BiasAdd BiasGelu BiasSplitGelu ComplexMul ComplexMulConj DynamicQuantizeMatMul ExpandDims "
     "FastGelu GatedAdd GatherND Gelu GemmFastGelu GemmaRotaryEmbedding Inverse LinearAttentionGate "
     "MatMulInteger16 MatMulIntegerToFloat MulInteger QLinearAdd QLinearMul QLinearSigmoid "
     "QLinearWhere Range RemovePadding RestorePadding SampleOp TorchEmbedding Unique",
     ""},
    {kMicrosoft, "BiasDropout BitmaskBiasDropout BitmaskDropout",
     "seed"},
    {kMicrosoft, "BiasSoftmax",
     "axis is_inner_broadcast"},
    {kMicrosoft, "BranchwiseRMSNorm",
     "epsilon num_branches"},
    {kMicrosoft, "CDist",
     "metric"},
    {kMicrosoft, "CausalConvWithState",
     "activation channels_last dilation input_channel_offset input_channels ndim state_channels_last "
     "state_length state_update_capacity state_window"},
    {kMicrosoft, "ConvTransposeWithDynamicPads",
     "auto_pad dilations group kernel_shape output_padding strides"},
    {kMicrosoft, "CropAndResize",
     "extrapolation_value mode"},
    {kMicrosoft, "DequantizeLinear QLinearConcat QuantizeLinear",
     "axis"},
    {kMicrosoft, "DynamicQuantizeLSTM",
     "activation_alpha activation_beta activations clip direction hidden_size input_forget"},
    {kMicrosoft, "EmbedLayerNormalization",
     "epsilon mask_index_type"},
    {kMicrosoft, "FusedConv NhwcFusedConv",
     "activation activation_params auto_pad dilations group kernel_shape pads strides"},
    {kMicrosoft, "FusedGemm",
     "activation activation_alpha activation_beta activation_gamma alpha beta transA transB"},
    {kMicrosoft, "FusedMatMul",
     "alpha transA transB transBatchA transBatchB"},
    {kMicrosoft, "FusedMatMulActivation",
     "activation activation_alpha activation_axis activation_beta activation_gamma alpha transA transB "
     "transBatchA transBatchB"},
    {kMicrosoft, "GatedRMSNorm",
     "activation epsilon"},
    {kMicrosoft, "GatherBlockQuantized",
     "bits block_size gather_axis quantize_axis"},
    {kMicrosoft, "GridSample",
     "align_corners mode padding_mode"},
    {kMicrosoft, "GroupNorm SkipGroupNorm",
     "activation channels_last epsilon groups"},
    {kMicrosoft, "GroupQueryAttention",
     "causal do_rotary k_norm_epsilon k_quant_type kv_cache_bit_width kv_num_heads local_window_size "
     "num_heads q_norm_epsilon qk_norm_epsilon qk_output rotary_interleaved scale sliding_window_cache "
     "smooth_softmax softcap v_quant_type"},
    {kMicrosoft, "Irfft Rfft",
     "normalized onesided signal_ndim"},
    {kMicrosoft, "IsAllFinite",
     "isinf_only isnan_only"},
    {kMicrosoft, "LinearAttention",
     "chunk_size kv_num_heads q_num_heads scale state_window update_rule"},
    {kMicrosoft, "MRotaryEmbedding",
     "interleaved is_packed_batching mrope_layout mrope_section num_heads rotary_embedding_dim scale"},
    {kMicrosoft, "MatMulBnb4",
     "K N block_size quant_type training_mode transB"},
    {kMicrosoft, "MatMulNBits",
     "K N accuracy_level bits block_size weight_prepacked"},
    {kMicrosoft, "MoE",
     "activation_alpha activation_beta activation_type k normalize_routing_weights swiglu_fusion "
     "swiglu_limit swiglu_limit_after_activation use_sparse_mixer"},
    {kMicrosoft, "MultiHeadAttention",
     "mask_filter_value num_heads scale unidirectional"},
    {kMicrosoft, "NGramRepeatBlock",
     "ngram_size"},
    {kMicrosoft, "NhwcConv",
     "auto_pad dilations group kernel_shape pads strides"},
    {kMicrosoft, "NhwcMaxPool",
     "auto_pad ceil_mode dilations kernel_shape pads strides"},
    {kMicrosoft, "Pad",
     "mode"},
    {kMicrosoft, "QAttention",
     "do_rotary mask_filter_value num_heads past_present_share_buffer scale unidirectional"},
    {kMicrosoft, "QEmbedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization",
     "epsilon"},
    {kMicrosoft, "QGemm TransposeMatMul",
     "alpha transA transB"},
    {kMicrosoft, "QLinearAveragePool",
     "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides"},
    {kMicrosoft, "QLinearConv",
     "auto_pad channels_last dilations group kernel_shape pads strides"},
    {kMicrosoft, "QLinearGlobalAveragePool",
     "channels_last"},
    {kMicrosoft, "QLinearLeakyRelu QuickGelu ScaledSiLU",
     "alpha"},
    {kMicrosoft, "QLinearReduceMean ReduceSumInteger",
     "axes keepdims"},
    {kMicrosoft, "QLinearSoftmax",
     "axis opset"},
    {kMicrosoft, "QMoE",
     "accuracy_level activation_alpha activation_beta activation_type block_size expert_weight_bits "
     "fc1_expert_weight_bits fc2_expert_weight_bits fc3_expert_weight_bits k normalize_routing_weights "
     "quant_type swiglu_fusion swiglu_limit swiglu_limit_after_activation use_sparse_mixer "
     "weights_prepacked"},
    {kMicrosoft, "RotaryEmbedding",
     "interleaved is_packed_batching num_heads rotary_embedding_dim scale"},
    {kMicrosoft, "SwiGLU",
     "activation_alpha activation_beta limit round_activation"},
    {kMicrosoft, "Tokenizer",
     "mark mincharnum pad_value separators tokenexp"},
    {kMicrosoft, "Trilu",
     "upper"},
    {kMicrosoft, "UnfoldTensor",
     "dim size step"},
};
// clang-format on

/// The first of the words; takes it, and the space behind it, away.
std::string_view next_word(std::string_view& words) {
  const size_t end = std::min(words.find(' '), words.size());
  const std::string_view word = words.substr(0, end);
  words.remove_prefix(std::min(end + 1, words.size()));
  return word;
}

/// By domain and op.
using Attributes = std::map<std::pair<std::string_view, std::string_view>, std::string_view>;

Attributes make_attributes() {
  Attributes all;
  for (const Group& group : kGroups) {
    for (std::string_view ops = group.ops; !ops.empty();)
      all.emplace(std::pair(group.domain, next_word(ops)), group.attributes);
  }
  return all;
}

/// Whether the opset is one of "7", "-6" or "7-12".
bool is_within(int64_t opset, std::string_view opsets) {
  int64_t first = 0, last = std::numeric_limits<int64_t>::max();
  const size_t dash = std::min(opsets.find('-'), opsets.size());
  std::from_chars(opsets.data(), opsets.data() + dash, first);
  if (dash < opsets.size()) std::from_chars(opsets.data() + dash + 1, opsets.data() + opsets.size(), last);
  return first <= opset && opset <= last;
}

}  // namespace

std::optional<bool> has_attribute(std::string_view domain, std::string_view op, int64_t opset,
                                  std::string_view attribute) {
  static const Attributes all = make_attributes();
  const auto found = all.find({domain, op});
  if (found == all.end()) return std::nullopt;
  for (std::string_view words = found->second; !words.empty();) {
    const std::string_view word = next_word(words);
    const size_t colon = std::min(word.find(':'), word.size());
    if (word.substr(0, colon) != attribute) continue;
    if (colon == word.size() || is_within(opset, word.substr(colon + 1))) return true;
  }
  return false;
}

}  // namespace gantry
