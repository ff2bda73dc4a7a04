#include "host/ops/text.h"

#include "host/ops/builtin_def.h"
#include "host/ops/elementwise.h"
#include "host/ops/families.h"
#include "host/ops/movement.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

const TensorType& strings(const Node& node, size_t i) {
  const TensorType& type = ops::input_type(node, i);
  ops::require(type.dtype == DType::kString, "input {} is a {}, not of strings", i, type.str());
  return type;
}

std::vector<TensorType> infer_concat(const Node& node, Function& function) {
  const Shape shape =
      broadcast_shapes(strings(node, 0).shape, strings(node, 1).shape, function, ops::origin_of(node));
  return {{DType::kString, shape}};
}

std::vector<TensorType> infer_split_counts(const Node& node, Function&) {
  return {{DType::kI64, strings(node, 0).shape}, {DType::kI64, {1}}};
}

std::vector<TensorType> infer_split(const Node& node, Function&) {
  Shape shape = strings(node, 0).shape;
  shape.push_back(node.attrs_as<SplitIntoAttrs>().parts);
  return {{DType::kString, shape}};
}

void require_words(const Node& node) {
  ops::require(strings(node, 0).rank() == 1, "{} is no vector of words", strings(node, 0).str());
  if (ops::has_input(node, 1)) ops::require(strings(node, 1).rank() == 1, "its stopwords are no vector");
}

std::vector<TensorType> infer_kept_count(const Node& node, Function&) {
  require_words(node);
  return {{DType::kI64, {1}}};
}

std::vector<TensorType> infer_normalize(const Node& node, Function&) {
  require_words(node);
  return {{DType::kString, {node.attrs_as<NormalizeAttrs>().kept}}};
}

std::vector<TensorType> infer_matches(const Node& node, Function&) {
  return {{DType::kBool, strings(node, 0).shape}};
}

std::vector<TensorType> infer_token_count(const Node& node, Function&) {
  strings(node, 0);
  return {{DType::kI64, {1}}};
}

std::vector<TensorType> infer_tokens(const Node& node, Function&) {
  Shape shape = strings(node, 0).shape;
  const Shape& pad = strings(node, 1).shape;
  ops::require(pad.size() == 1 && !provably_different(pad[0], 1), "what fills up is not one string");
  shape.push_back(node.attrs_as<TokenAttrs>().width);
  return {{DType::kString, shape}};
}

std::vector<TensorType> infer_format(const Node& node, Function&) {
  const TensorType& x = ops::input_type(node, 0);
  const bool taken =
      x.dtype == DType::kF32 || x.dtype == DType::kF64 || x.dtype == DType::kBool ||
      (byte_width(x.dtype) == bit_width(x.dtype) / 8 && !is_float(x.dtype) && x.dtype != DType::kString);
  ops::require_dtype(taken, x.dtype);
  return {{DType::kString, x.shape}};
}

std::vector<TensorType> infer_parse(const Node& node, Function&) {
  const DType to = node.attrs_as<ParseAttrs>().to;
  ops::require_dtype(
      to == DType::kF32 || to == DType::kF64 || to == DType::kBool || to == DType::kI64 || to == DType::kU64,
      to);
  return {{to, strings(node, 0).shape}};
}

std::vector<TensorType> infer_ranks(const Node& node, Function&) {
  return {{DType::kI64, strings(node, 0).shape}};
}

}  // namespace

std::optional<BuiltinAttributes> text_builtin(const Node& node) {
  if (node.is(text::concat) || node.is(text::ranks)) return BuiltinAttributes{};
  if (const auto* a = node.match(text::split_counts)) return BuiltinAttributes{{a->most}, a->delimiter};
  if (const auto* a = node.match(text::split)) return BuiltinAttributes{{a->most}, a->delimiter};
  for (const auto* op : {&text::kept_count, &text::normalize}) {
    if (const auto* a = node.match(*op))
      return BuiltinAttributes{{static_cast<int64_t>(a->change), a->is_case_sensitive ? 1 : 0}, ""};
  }
  if (const auto* a = node.match(text::matches)) return BuiltinAttributes{{}, a->pattern};
  for (const auto* op : {&text::token_count, &text::tokens}) {
    if (const auto* a = node.match(*op)) return BuiltinAttributes{{a->least, a->mark ? 1 : 0}, a->pattern};
  }
  if (const auto* a = node.match(text::format)) return BuiltinAttributes{{a->bits, a->least}, ""};
  if (node.is(text::parse)) return BuiltinAttributes{};
  return std::nullopt;
}

bool takes_strings(const OpBase& op) {
  for (const OpHandle* handle : std::initializer_list<const OpHandle*>{&op::identity, &op::copy, &op::equal,
                                                                       &op::not_equal, &op::where}) {
    if (op.handle == handle) return true;
  }
  const FusionClass fusion = static_cast<const OpDef&>(op).fusion;
  return fusion == FusionClass::kInjective || fusion == FusionClass::kOpaque;
}

void add_text_ops(OpSet& set) {
  OpDef concat = define_builtin(text::concat, {"a", "b"}, 0, infer_concat);
  concat.axes_apart = 0;
  set.add(std::move(concat));
  set.add(define_builtin(text::split_counts, {"x"}, 0, infer_split_counts));
  set.add(define_builtin(text::split, {"x"}, 0, infer_split));
  set.add(define_builtin(text::kept_count, {"x", "stopwords"}, 1, infer_kept_count));
  set.add(define_builtin(text::normalize, {"x", "stopwords"}, 1, infer_normalize));
  set.add(define_builtin(text::matches, {"x"}, 0, infer_matches));
  set.add(define_builtin(text::token_count, {"x"}, 0, infer_token_count));
  set.add(define_builtin(text::tokens, {"x", "pad"}, 0, infer_tokens));
  set.add(define_builtin(text::format, {"x"}, 0, infer_format));
  set.add(define_builtin(text::parse, {"x"}, 0, infer_parse));
  set.add(define_builtin(text::ranks, {"x"}, 0, infer_ranks));
}

}  // namespace gantry
