#include "host/passes/form_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/tiles.h"
#include "host/passes/dilation_phases.h"

namespace gantry {
namespace {

constexpr const char* kPlain = "plain";
constexpr const char* kHalf = "half";

struct FormName {
  std::string_view name;
  ConvAlgorithm algorithm;
};
constexpr FormName kConvForms[] = {
    {"direct", ConvAlgorithm::kDirect},       {"gemm", ConvAlgorithm::kGemm},
    {"winograd2", ConvAlgorithm::kWinograd2}, {"winograd4", ConvAlgorithm::kWinograd4},
    {"winograd6", ConvAlgorithm::kWinograd6}, {"tiles", ConvAlgorithm::kTiles},
};

std::string form_of(ConvAlgorithm algorithm) {
  return std::string(std::ranges::find(kConvForms, algorithm, &FormName::algorithm)->name);
}

ConvAlgorithm algorithm_of(std::string_view form) {
  return std::ranges::find(kConvForms, form, &FormName::name)->algorithm;
}

// --- the target's choices

ConvAlgorithm wished_algorithm(const LayoutPolicy& policy, const ConvAttrs& attrs, const ConvQuestion& question) {
  if (!policy.conv_algorithm) return ConvAlgorithm::kDirect;
  const ConvAlgorithm wish = policy.conv_algorithm(attrs, question.data, question.result);
  // Transformed values need the range and precision of f32.
  const DType dtype = question.data.dtype;
  const bool wide = dtype == DType::kF32 || dtype == DType::kF64;
  return winograd_tile(wish) > 0 && (!wide || !fits_winograd(attrs)) ? ConvAlgorithm::kGemm : wish;
}

// Narrow groups waste vectors: the policy may want several as one.
void merge_groups(ConvAttrs& attrs, int64_t merged) {
  attrs.groups /= merged;
  attrs.merged_groups = merged;
}

int64_t wished_merged_groups(const LayoutPolicy& policy, const ConvAttrs& attrs, const ConvQuestion& question) {
  if (attrs.groups == 1 || !policy.merged_groups || question.weight != DType::kF32) return 1;
  const int64_t merged = policy.merged_groups(attrs, question.data, question.result);
  return merged > 1 && attrs.groups % merged == 0 ? merged : 1;
}

/// Of a convolution that is not depthwise, as it is or of phases: channels-last.
Decision choose_product(const LayoutPolicy& policy, ConvAttrs attrs, const ConvQuestion& question) {
  const bool known = question.constant_weight;
  if (known) merge_groups(attrs, wished_merged_groups(policy, attrs, question));
  attrs.channels_last = true;
  attrs.plain_data = question.plain_data && attrs.groups == 1;
  attrs.tile_unit = policy.tile_unit;
  const TiledConv tiled =
      known && policy.conv_tiles ? policy.conv_tiles(attrs, question.data, question.result) : TiledConv{};
  attrs.tile_parts = tiled.parts;
  if (known) attrs.algorithm = tiled.parts > 0 ? tiled.algorithm : wished_algorithm(policy, attrs, question);
  attrs.plain_data = attrs.plain_data && policy.conv_plain_data &&
                     policy.conv_plain_data(attrs, question.data, question.result);
  if (attrs.algorithm == ConvAlgorithm::kDirect) {
    attrs.weight_block = policy.conv_block(attrs, question.data, question.result);
    if (attrs.weight_block == 0) return {kPlain, {}};
  } else if (winograd_tile(attrs.algorithm) > 0 && policy.winograd_block && tiled.parts == 0) {
    attrs.weight_block = policy.winograd_block(attrs, question.data, question.result);
  }
  const bool half = attrs.weight_block > 0 && policy.conv_half &&
                    policy.conv_half(attrs, question.data, question.result);
  Decision decision{form_of(attrs.algorithm), {}};
  decision.set("block", attrs.weight_block);
  decision.set("parts", attrs.tile_parts);
  decision.set(kHalf, half ? 1 : 0);
  decision.set("plain_data", attrs.plain_data ? 1 : 0);
  decision.set("merged_groups", attrs.merged_groups, 1);
  return decision;
}

/// As a convolution of the phases of the dilation, where the policy wants that.
std::optional<Decision> choose_phases(const LayoutPolicy& policy, const ConvAttrs& dilated,
                                      const ConvQuestion& question) {
  if (!question.constant_weight || !policy.conv_phases) return std::nullopt;
  ConvAttrs whole = dilated;
  whole.channels_last = true;
  if (policy.conv_tiles && policy.conv_tiles(whole, question.data, question.result).parts > 0)
    return std::nullopt;
  const auto phases = dilation_phases(dilated, question.data, question.result);
  if (!phases || !policy.conv_phases(dilated, question.data, question.result, *phases)) return std::nullopt;
  Decision decision = choose_product(policy, phases->attrs, {phases->data, phases->result, question.weight});
  if (decision.form == kPlain) return std::nullopt;
  decision.set("phases", 1);
  return decision;
}

// --- what others have chosen

struct FormKnobs {
  std::string_view form;
  std::vector<std::string_view> knobs;
};

/// A form or a knob that there is not.
Misfit unknown(const Decision& decision, std::span<const FormKnobs> forms) {
  const auto form = std::ranges::find(forms, decision.form, &FormKnobs::form);
  if (form == forms.end()) {
    std::vector<std::string_view> names;
    for (const FormKnobs& known : forms) names.push_back(known.form);
    return fmt::format("there is no form '{}' for it here, only {}", decision.form, fmt::join(names, ", "));
  }
  for (const auto& [name, value] : decision.knobs) {
    if (std::ranges::find(form->knobs, name) != form->knobs.end()) continue;
    return fmt::format("form {} has no knob '{}'{}", decision.form, name,
                       form->knobs.empty() ? std::string()
                                           : fmt::format(", only {}", fmt::join(form->knobs, ", ")));
  }
  return std::nullopt;
}

Misfit out_of_range(const Decision& decision, const char* knob, int64_t least, int64_t most, int64_t otherwise) {
  const int64_t value = decision.knob(knob, otherwise);
  if (value >= least && value <= most) return std::nullopt;
  return fmt::format("{} of form {} is {} to {}, not {}", knob, decision.form, least, most, value);
}

/// Whole vectors, of `vector_bytes`, of elements of so many bytes; at most as many as 32 of the target's.
Misfit unfit_block(const LayoutPolicy& policy, const Decision& decision, const char* knob, int element_bytes,
                   int64_t vector_bytes) {
  constexpr int64_t kMostVectors = 32;
  if (policy.vector_bytes == 0) return fmt::format("form {} is for CPUs", decision.form);
  const int64_t lanes = std::max<int64_t>(vector_bytes / element_bytes, 1);
  const int64_t most = std::max<int64_t>(policy.vector_bytes / element_bytes, 1) * kMostVectors;
  const int64_t value = decision.knob(knob);
  if (value >= lanes && value <= most && value % lanes == 0) return std::nullopt;
  return fmt::format("{} of form {} is a multiple of {} up to {}, not {}", knob, decision.form, lanes, most, value);
}

Misfit unfit_block(const LayoutPolicy& policy, const Decision& decision, const char* knob, int element_bytes) {
  return unfit_block(policy, decision, knob, element_bytes, policy.vector_bytes);
}

Misfit unfit_block(const LayoutPolicy& policy, const Decision& decision, DType dtype) {
  return unfit_block(policy, decision, "block", byte_width(decision.knob(kHalf) != 0 ? DType::kF16 : dtype));
}

Misfit unfit_half(const LayoutPolicy& policy, const Decision& decision, DType dtype) {
  if (decision.knob(kHalf) == 0 || (policy.half_products && dtype == DType::kF32)) return std::nullopt;
  return "half is for f32 on targets that compute in f16, with --precision fp16";
}

Misfit unfit_tiles(const Decision& decision, bool available) {
  if (!available) return "tile registers are for targets that have them, with a precision that uses them";
  return out_of_range(decision, "parts", 1, 3, 0);
}

/// The first that there is.
Misfit first_of(std::initializer_list<Misfit> misfits) {
  const auto found = std::ranges::find_if(misfits, [](const Misfit& one) { return one.has_value(); });
  return found == misfits.end() ? std::nullopt : *found;
}

Misfit unfit_winograd(const LayoutPolicy& policy, const Decision& decision, const ConvAttrs& attrs,
                      const ConvQuestion& question) {
  const DType dtype = question.data.dtype;
  if (!fits_winograd(attrs))
    return fmt::format("form {} is for windows of 3 by 3 with strides and dilations of 1", decision.form);
  if ((dtype != DType::kF32 && dtype != DType::kF64) || !question.data.shape[1].is_constant())
    return fmt::format("form {} is for f32 and f64 with a known number of channels", decision.form);
  if (decision.knob("parts") != 0) return unfit_tiles(decision, policy.conv_tiles != nullptr);
  if (!policy.winograd_block) return decision.knob("block") == 0 ? Misfit() : "this target has no blocks";
  return first_of({unfit_block(policy, decision, dtype), unfit_half(policy, decision, dtype)});
}

Misfit unfit_product(const LayoutPolicy& policy, const Decision& decision, const ConvAttrs& attrs,
                     const ConvQuestion& question) {
  if (decision.form == "direct") {
    return first_of({unfit_block(policy, decision, question.data.dtype), unfit_half(policy, decision, question.data.dtype),
                     decision.knob("plain_data") != 0 && attrs.groups != 1
                         ? Misfit("plain_data is for convolutions without groups")
                         : Misfit()});
  }
  if (!question.constant_weight) return fmt::format("form {} is for constant weights", decision.form);
  if (winograd_tile(algorithm_of(decision.form)) > 0) return unfit_winograd(policy, decision, attrs, question);
  if (decision.form == "gemm") return std::nullopt;
  bool known = question.data.shape[1].is_constant();
  for (size_t i = 2; i < question.data.shape.size(); ++i)
    known = known && question.data.shape[i].is_constant() && question.result.shape[i].is_constant();
  if (!fits_tiles(attrs, question.data.dtype) || !known)
    return "form tiles is for f32 images of known size, without groups";
  return unfit_tiles(decision, policy.conv_tiles != nullptr);
}

}  // namespace

bool is_depthwise(const ConvAttrs& attrs, const TensorType& data) {
  return attrs.groups > 1 && attrs.groups == attrs.channels && data.shape[1] == Dim(attrs.groups);
}

Decision choose_form(const LayoutPolicy& policy, const ConvAttrs& attrs, const ConvQuestion& question) {
  if (is_depthwise(attrs, question.data)) {
    const bool plain_pays = policy.depthwise_plain && policy.depthwise_plain(attrs, question.data);
    return {plain_pays && question.plain_data ? kPlain : "depthwise", {}};
  }
  if (auto phases = choose_phases(policy, attrs, question)) return *std::move(phases);
  return choose_product(policy, attrs, question);
}

Decision choose_form(const LayoutPolicy& policy, const DenseAttrs& attrs, const TensorType& data,
                     const std::function<bool(int64_t, int64_t)>& is_exact) {
  if (policy.dense_fixed_point) {
    for (const auto& format : policy.dense_fixed_point(data, attrs.units)) {
      if (is_exact(format.bits, format.columns))
        return {"integers", {{"bits", format.bits}, {"block", format.columns}}};
    }
  }
  const int64_t parts = policy.dense_tiles ? policy.dense_tiles(data, attrs.units) : 0;
  if (parts > 0) return {"tiles", {{"parts", parts}}};
  if (policy.dense_gemm && policy.dense_gemm(data, attrs.units)) return {"gemm", {}};
  const int64_t block = policy.dense_block(data, attrs.units);
  if (block == 0) return {kPlain, {}};
  Decision decision{"packed", {{"block", block}}};
  decision.set(kHalf, policy.dense_half && policy.dense_half(data, attrs.units) ? 1 : 0);
  return decision;
}

Decision choose_form(const LayoutPolicy& policy, const TensorType& a, const TensorType& b) {
  return {policy.matmul_gemm && policy.matmul_gemm(a, b) ? "gemm" : kPlain, {}};
}

Decision choose_form(const LayoutPolicy& policy, const TensorType& state, const std::vector<int64_t>& runs) {
  const RecurrentPacking packing = policy.recurrent ? policy.recurrent(state, runs) : RecurrentPacking{};
  if (packing.columns == 0) return {kPlain, {}};
  Decision decision{"packed", {{"columns", packing.columns}}};
  decision.set("sequences", packing.sequences, 1);
  decision.set("in_turn", packing.directions_in_turn ? 1 : 0);
  return decision;
}

Misfit misfit(const LayoutPolicy& policy, const Decision& decision, const ConvAttrs& attrs,
              const ConvQuestion& question) {
  static const std::vector<FormKnobs> kDepthwise{{kPlain, {}}, {"depthwise", {}}};
  static const std::vector<FormKnobs> kProduct{
      {kPlain, {}},
      {"direct", {"block", kHalf, "plain_data", "merged_groups", "phases"}},
      {"gemm", {"merged_groups", "phases"}},
      {"winograd2", {"block", kHalf, "parts", "merged_groups", "phases"}},
      {"winograd4", {"block", kHalf, "parts", "merged_groups", "phases"}},
      {"winograd6", {"block", kHalf, "parts", "merged_groups", "phases"}},
      {"tiles", {"parts", "phases"}}};
  const bool depthwise = is_depthwise(attrs, question.data);
  if (Misfit no = unknown(decision, depthwise ? kDepthwise : kProduct)) return no;
  if (depthwise || decision.form == kPlain) return std::nullopt;
  ConvAttrs merged = attrs;
  const int64_t groups = decision.knob("merged_groups", 1);
  if (groups < 1 || attrs.groups % groups != 0)
    return fmt::format("merged_groups divides the {} groups, which {} does not", attrs.groups, groups);
  if (groups > 1 && (!question.constant_weight || question.weight != DType::kF32))
    return "merged_groups is for constant weights in f32";
  merge_groups(merged, groups);
  if (decision.knob("phases") == 0) return unfit_product(policy, decision, merged, question);
  const auto phases = dilation_phases(attrs, question.data, question.result);
  if (!phases || !question.constant_weight)
    return "phases is for constant weights and images of known size, dilated alike along both axes";
  ConvAttrs inner = phases->attrs;
  merge_groups(inner, groups);
  return unfit_product(policy, decision, inner, {phases->data, phases->result, question.weight});
}

Misfit misfit(const LayoutPolicy& policy, const Decision& decision, const DenseAttrs&, const TensorType& data) {
  static const std::vector<FormKnobs> kForms{
      {kPlain, {}}, {"packed", {"block", kHalf}}, {"integers", {"bits", "block"}}, {"tiles", {"parts"}}, {"gemm", {}}};
  if (Misfit no = unknown(decision, kForms)) return no;
  const bool fits = data.dtype == DType::kF32 && !data.shape.empty() && data.shape.back().is_constant();
  if (decision.form == "packed") {
    // Few units are computed by narrower vectors than the target's, rather than by wide ones that are partly empty.
    constexpr int64_t kNarrowest = 16;
    const int bytes = byte_width(decision.knob(kHalf) != 0 ? DType::kF16 : data.dtype);
    const int64_t narrowest = std::min<int64_t>(policy.vector_bytes, kNarrowest);
    return first_of({unfit_block(policy, decision, "block", bytes, narrowest), unfit_half(policy, decision, data.dtype)});
  }
  if (decision.form == "integers") {
    const int64_t bits = decision.knob("bits");
    if (!policy.dense_fixed_point || !fits) return "form integers is for f32 on CPUs, of known depth";
    if (bits != 20 && bits != 24) return fmt::format("bits of form integers is 20 or 24, not {}", bits);
    return unfit_block(policy, decision, data.dtype);
  }
  if (decision.form == "tiles") return unfit_tiles(decision, policy.dense_tiles && fits);
  if (decision.form == "gemm" && !policy.dense_gemm) return "form gemm is for GPUs";
  return std::nullopt;
}

Misfit misfit_of_matmul(const LayoutPolicy& policy, const Decision& decision) {
  static const std::vector<FormKnobs> kForms{{kPlain, {}}, {"gemm", {}}};
  if (Misfit no = unknown(decision, kForms)) return no;
  return decision.form == "gemm" && !policy.matmul_gemm ? Misfit("form gemm is for GPUs") : std::nullopt;
}

Misfit misfit_of_recurrence(const LayoutPolicy& policy, const Decision& decision) {
  static const std::vector<FormKnobs> kForms{{kPlain, {}}, {"packed", {"columns", "sequences", "in_turn"}}};
  if (Misfit no = unknown(decision, kForms)) return no;
  if (decision.form == kPlain) return std::nullopt;
  if (!policy.recurrent) return "form packed is for CPUs";
  constexpr int64_t kMostSequences = 8;
  return first_of({unfit_block(policy, decision, "columns", byte_width(DType::kF32)),
                   out_of_range(decision, "sequences", 1, kMostSequences, 1),
                   out_of_range(decision, "in_turn", 0, 1, 0)});
}

ConvAttrs with_form(const LayoutPolicy& policy, const Decision& decision, const ConvAttrs& attrs,
                    const TensorType& data) {
  ConvAttrs made = attrs;
  merge_groups(made, decision.knob("merged_groups", 1));
  made.channels_last = true;
  made.algorithm = algorithm_of(decision.form);
  made.plain_data = decision.knob("plain_data") != 0;
  made.tile_unit = policy.tile_unit;
  made.tile_parts = decision.knob("parts");
  made.weight_block = decision.knob("block");
  if (made.algorithm == ConvAlgorithm::kTiles) made.tile_fold_width = folds_width(made, data.shape[1].value());
  return made;
}

DenseAttrs with_form(const LayoutPolicy& policy, const Decision& decision, const DenseAttrs& attrs) {
  DenseAttrs made = attrs;
  made.weight_block = decision.knob("block");
  made.fixed_bits = decision.knob("bits");
  made.gemm = decision.form == "gemm";
  made.tile_parts = decision.knob("parts");
  if (made.fixed_bits == 0) made.tile_unit = policy.tile_unit;
  return made;
}

}  // namespace gantry
