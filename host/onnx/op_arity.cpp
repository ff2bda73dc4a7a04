// Counted from the schemas of onnx 1.23 and ONNX Runtime 1.32.
#include "host/onnx/op_arity.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "host/onnx/converters.h"
#include "host/onnx/ml_scores.h"

namespace gantry {
namespace {

constexpr std::string_view kOnnx = "", kPreview = "ai.onnx.preview";
constexpr int kAny = kAnyNumber;

/// Ops whose definitions since that opset have as many inputs and outputs at most. The first of each op's
/// stands for what was before it, too.
struct Group {
  std::string_view domain;
  int64_t since;
  int inputs, outputs;
  std::string_view ops;  ///< with a space between them
};

// clang-format off
constexpr Group kGroups[] = {
    {kOnnx, 1, 0, 1,
     "Constant RandomNormal RandomUniform SequenceEmpty"},
    {kOnnx, 1, 1, 1,
     "Abs Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh AveragePool Bernoulli BitCast BitwiseNot "
     "BlackmanWindow Cast Ceil Celu Clip ConcatFromSequence ConstantOfShape Cos Cosh DepthToSpace Det "
     "Elu Erf Exp EyeLike Flatten Floor Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool "
     "HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity ImageDecoder IsInf IsNaN LRN "
     "LeakyRelu Log LogSoftmax LpNormalization LpPool MaxPool MeanVarianceNormalization Mish "
     "Multinomial Neg NonZero Not Optional OptionalGetElement OptionalHasElement Pad RandomNormalLike "
     "RandomUniformLike Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean "
     "ReduceMin ReduceProd ReduceSum ReduceSumSquare RegexFullMatch Relu Reshape Round ScaledTanh Selu "
     "SequenceLength Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign "
     "SpaceToDepth Sqrt Squeeze StringNormalizer Swish Tan Tanh TfIdfVectorizer ThresholdedRelu "
     "Transpose Unsqueeze Upsample"},
    {kOnnx, 1, 1, 2,
     "Dropout StringSplit TopK"},
    {kOnnx, 1, 1, 3,
     "DynamicQuantizeLinear"},
    {kOnnx, 1, 1, 4,
     "Unique"},
    {kOnnx, 1, 1, kAny,
     "If"},
    {kOnnx, 1, 2, 1,
     "Add AffineGrid And BitShift BitwiseAnd BitwiseOr BitwiseXor CastLike CenterCropPad Compress "
     "CumProd CumSum DFT Div Equal Expand Gather GatherElements GatherND Greater GreaterOrEqual "
     "GridSample Less LessOrEqual MatMul MaxRoiPool Mod Mul Or PRelu Pow RMSNormalization Resize "
     "ReverseSequence SequenceAt SequenceErase SplitToSequence StringConcat Sub SwiGLU Trilu Xor"},
    {kOnnx, 1, 2, 2,
     "SimplifiedLayerNormalization"},
    {kOnnx, 1, 2, kAny,
     "Split"},
    {kOnnx, 1, 3, 1,
     "Col2Im Conv ConvTranspose DequantizeLinear Gemm GroupNormalization InstanceNormalization "
     "MaxUnpool NegativeLogLikelihoodLoss OneHot QuantizeLinear Range RoiAlign Scatter ScatterElements "
     "ScatterND SequenceInsert TensorScatter Tile Where"},
    {kOnnx, 1, 3, 2,
     "SoftmaxCrossEntropyLoss"},
    {kOnnx, 1, 3, 3,
     "LayerNormalization"},
    {kOnnx, 1, 4, 1,
     "ConvInteger MatMulInteger RotaryEmbedding STFT"},
    {kOnnx, 1, 4, 2,
     "CausalConvWithState"},
    {kOnnx, 1, 5, 1,
     "DeformConv MelWeightMatrix NonMaxSuppression"},
    {kOnnx, 1, 5, 5,
     "BatchNormalization"},
    {kOnnx, 1, 6, 2,
     "GRU LinearAttention RNN"},
    {kOnnx, 1, 6, 4,
     "Attention"},
    {kOnnx, 1, 8, 1,
     "QLinearMatMul"},
    {kOnnx, 1, 8, 3,
     "LSTM"},
    {kOnnx, 1, 9, 1,
     "QLinearConv"},
    {kOnnx, 1, kAny, 1,
     "Concat Einsum Max Mean Min SequenceConstruct Sum"},
    {kOnnx, 1, kAny, kAny,
     "Loop Scan SequenceMap"},
    {kOnnx, 2, 1, kAny,
     "Split"},
    {kOnnx, 5, 2, 1,
     "Reshape"},
    {kOnnx, 6, 2, 1,
     "Tile"},
    {kOnnx, 8, 1, 2,
     "MaxPool"},
    {kOnnx, 9, 2, 1,
     "Upsample"},
    {kOnnx, 10, 2, 2,
     "TopK"},
    {kOnnx, 10, 5, 1,
     "Slice"},
    {kOnnx, 11, 3, 1,
     "Clip Pad"},
    {kOnnx, 11, 4, 1,
     "Resize"},
    {kOnnx, 12, 3, 2,
     "Dropout"},
    {kOnnx, 13, 2, 1,
     "ReduceSum Squeeze Unsqueeze"},
    {kOnnx, 13, 2, kAny,
     "Split"},
    {kOnnx, 14, 5, 3,
     "BatchNormalization"},
    {kOnnx, 18, 2, 1,
     "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
     "ReduceSumSquare"},
    {kOnnx, 18, 4, 1,
     "Pad"},
    {kOnnx, 20, 3, 1,
     "DFT"},
    {kOnnx, 24, 7, 4,
     "Attention"},
    {kClassical, 1, 1, 1,
     "Binarizer CategoryMapper Imputer LabelEncoder LinearRegressor Normalizer OneHotEncoder "
     "SVMRegressor Scaler TreeEnsemble TreeEnsembleRegressor ZipMap"},
    {kClassical, 1, 1, 2,
     "LinearClassifier SVMClassifier TreeEnsembleClassifier"},
    {kClassical, 1, 2, 1,
     "ArrayFeatureExtractor"},
    {kClassical, 1, kAny, 1,
     "FeatureVectorizer"},
    {kPreview, 1, 3, 1,
     "FlexAttention"},
    {kTraining, 1, kAny, kAny,
     "Adagrad Adam Gradient Momentum"},
    {kMicrosoft, 1, 1, 1,
     "Gelu Inverse Irfft NhwcMaxPool QuickGelu ReduceSumInteger Rfft SampleOp Tokenizer UnfoldTensor"},
    {kMicrosoft, 1, 1, 3,
     "Unique"},
    {kMicrosoft, 1, 2, 1,
     "BiasGelu BiasSoftmax BiasSplitGelu BranchwiseRMSNorm CDist ComplexMul ComplexMulConj ExpandDims "
     "FastGelu FusedMatMul FusedMatMulActivation GatherND GridSample MatMulInteger16 NGramRepeatBlock "
     "RestorePadding ScaledSiLU SwiGLU TransposeMatMul Trilu"},
    {kMicrosoft, 1, 2, 4,
     "RemovePadding"},
    {kMicrosoft, 1, 3, 1,
     "BiasAdd DequantizeLinear FusedGemm GatedRMSNorm GemmFastGelu GroupNorm MatMulBnb4 NhwcConv Pad "
     "QuantizeLinear Range"},
    {kMicrosoft, 1, 3, 2,
     "BitmaskDropout"},
    {kMicrosoft, 1, 4, 1,
     "ConvTransposeWithDynamicPads CropAndResize FusedConv GatedAdd GatherBlockQuantized "
     "MRotaryEmbedding MulInteger NhwcFusedConv RotaryEmbedding TorchEmbedding"},
    {kMicrosoft, 1, 4, 2,
     "LinearAttentionGate"},
    {kMicrosoft, 1, 4, 3,
     "CausalConvWithState"},
    {kMicrosoft, 1, 4, 4,
     "SkipSimplifiedLayerNormalization"},
    {kMicrosoft, 1, 5, 1,
     "DynamicQuantizeMatMul QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu "
     "QLinearReduceMean QLinearSigmoid QLinearSoftmax"},
    {kMicrosoft, 1, 5, 2,
     "BiasDropout BitmaskBiasDropout GemmaRotaryEmbedding SkipGroupNorm"},
    {kMicrosoft, 1, 5, 4,
     "SkipLayerNormalization"},
    {kMicrosoft, 1, 6, 1,
     "MatMulNBits"},
    {kMicrosoft, 1, 6, 2,
     "LinearAttention"},
    {kMicrosoft, 1, 7, 1,
     "MatMulIntegerToFloat"},
    {kMicrosoft, 1, 7, 2,
     "Attention"},
    {kMicrosoft, 1, 8, 1,
     "MoE QLinearAdd QLinearMul"},
    {kMicrosoft, 1, 9, 1,
     "QGemm QLinearConv QLinearWhere"},
    {kMicrosoft, 1, 9, 2,
     "QAttention"},
    {kMicrosoft, 1, 9, 3,
     "EmbedLayerNormalization"},
    {kMicrosoft, 1, 10, 4,
     "MultiHeadAttention"},
    {kMicrosoft, 1, 12, 3,
     "DynamicQuantizeLSTM"},
    {kMicrosoft, 1, 17, 4,
     "GroupQueryAttention"},
    {kMicrosoft, 1, 18, 2,
     "QEmbedLayerNormalization"},
    {kMicrosoft, 1, 20, 1,
     "QMoE"},
    {kMicrosoft, 1, kAny, 1,
     "IsAllFinite QLinearConcat"},
};
// clang-format on

struct Definition {
  int64_t since;
  OpArity arity;
};
/// By domain and op; in the order of their opsets.
using Definitions = std::map<std::pair<std::string_view, std::string_view>, std::vector<Definition>>;

Definitions make_definitions() {
  Definitions all;
  for (const Group& group : kGroups) {
    for (std::string_view rest = group.ops; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      all[{group.domain, rest.substr(0, end)}].push_back({group.since, {group.inputs, group.outputs}});
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  for (auto& [op, definitions] : all) std::ranges::sort(definitions, {}, &Definition::since);
  return all;
}

}  // namespace

std::optional<OpArity> largest_arity(std::string_view domain, std::string_view op, int64_t opset) {
  static const Definitions all = make_definitions();
  const auto found = all.find({domain, op});
  if (found == all.end()) return std::nullopt;
  const std::vector<Definition>& definitions = found->second;
  const auto above = std::ranges::upper_bound(definitions, opset, {}, &Definition::since);
  return above == definitions.begin() ? definitions.front().arity : std::prev(above)->arity;
}

}  // namespace gantry
