// Ops that make strings or look into them.
#include "device_runtime/builtins/pattern.h"
#include "host/graph/strings.h"
#include "host/onnx/converters.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/term.h"
#include "host/onnx/texts.h"
#include "host/ops/text.h"

namespace gantry {
namespace {

void convert_string_concat(NodeImport& n) {
  n.set(0, n.add(text::concat, {n.input(0), n.input(1)}));
}

void convert_string_split(NodeImport& n) {
  auto counted = std::make_shared<SplitAttrs>();
  counted->delimiter = n.text("delimiter", "");
  counted->most = n.integer("maxsplit", -1);
  const std::vector<Value*> counts = n.add_many(text::split_counts, {n.input(0)}, counted);
  if (n.wants(0)) {
    auto attrs = std::make_shared<SplitIntoAttrs>();
    attrs->delimiter = counted->delimiter;
    attrs->most = counted->most;
    attrs->parts = n.bind(counts[1], "parts")[0];
    n.set(0, n.add(text::split, {n.input(0)}, attrs));
  }
  if (n.wants(1)) n.set(1, counts[0]);
}

CaseChange case_change(NodeImport& n) {
  const std::string action = n.text("case_change_action", "NONE");
  if (action == "NONE") return CaseChange::kNone;
  if (action == "LOWER") return CaseChange::kLower;
  if (action == "UPPER") return CaseChange::kUpper;
  n.fail("its case_change_action is '{}', not NONE, LOWER or UPPER", action);
}

void convert_string_normalizer(NodeImport& n) {
  auto counted = std::make_shared<NormalizeAttrs>();
  counted->change = case_change(n);
  counted->is_case_sensitive = n.integer("is_case_sensitive", 0) != 0;
  const std::string locale = n.text("locale", "").substr(0, 2);
  if (locale == "tr" || locale == "az" || locale == "lt")
    n.unsupported(UnsupportedKind::kAttribute, "the case of letters in the locale {}", locale);
  const TensorType& given = n.type(0);
  const bool is_row = given.rank() == 2;
  if (given.rank() != 1 && !is_row) n.fail("its data {} are neither words nor a row of them", given.str());
  if (is_row) require_equal(n, given.shape[0], 1, "its data {} are more than one row", given.str());
  Value* words = is_row ? n.reshape(n.input(0), {element_count(given.shape)}) : n.input(0);
  std::vector<Value*> inputs{words};
  if (const std::vector<std::string> stopwords = n.text_list("stopwords"); !stopwords.empty())
    inputs.push_back(text_constant(n, stopwords));
  Value* count = n.add(text::kept_count, inputs, counted);
  auto attrs = std::make_shared<NormalizeAttrs>(*counted);
  attrs->kept = n.bind(count, "words")[0];
  Value* kept = n.add(text::normalize, inputs, attrs);
  n.set(0, is_row ? n.reshape(kept, {1, attrs->kept}) : kept);
}

void convert_regex_full_match(NodeImport& n) {
  auto attrs = std::make_shared<MatchAttrs>();
  attrs->pattern = n.text("pattern", "");
  if (const auto compiled = runtime::Pattern::compile(attrs->pattern); !compiled.ok())
    n.fail("{}", compiled.status().message());
  n.set(0, n.add(text::matches, {n.input(0)}, attrs));
}

/// What tokens are to match: the tokenexp, or one character where the only separator is empty.
std::string token_pattern(NodeImport& n) {
  const std::string pattern = n.text("tokenexp", "");
  const std::vector<std::string> separators = n.text_list("separators");
  if (pattern.empty() && separators == std::vector<std::string>{""}) return "(?s).";
  if (!separators.empty()) n.unsupported(UnsupportedKind::kAttribute, "separators other than an empty one");
  if (pattern.empty()) n.fail("it has neither a tokenexp nor separators");
  return pattern;
}

void convert_tokenizer(NodeImport& n) {
  auto counted = std::make_shared<TokenAttrs>();
  counted->pattern = token_pattern(n);
  counted->least = n.integer("mincharnum", 1);
  counted->mark = n.integer("mark", 0) != 0;
  if (counted->least < 1) n.fail("its mincharnum is {}, less than 1", counted->least);
  if (const auto compiled = runtime::Pattern::compile(counted->pattern); !compiled.ok())
    n.fail("{}", compiled.status().message());
  Value* count = n.add(text::token_count, {n.input(0)}, counted);
  auto attrs = std::make_shared<TokenAttrs>(*counted);
  attrs->width = n.bind(count, "tokens")[0];
  n.set(0, n.add(text::tokens, {n.input(0), text_constant(n, {n.text("pad_value", "")})}, attrs));
}

/// Significand bits, those that are implied too, and the exponent of the smallest step.
void describe_float(DType dtype, FormatAttrs& attrs) {
  struct Known {
    DType dtype;
    int64_t bits, least;
  };
  constexpr Known kFloats[] = {{DType::kF16, 11, -24},       {DType::kBF16, 8, -133},
                               {DType::kF8E4M3FN, 4, -9},    {DType::kF8E4M3FNUZ, 4, -10},
                               {DType::kF8E5M2, 3, -16},     {DType::kF8E5M2FNUZ, 3, -17},
                               {DType::kF8E8M0FNU, 1, -127}, {DType::kF6E2M3FN, 4, -3},
                               {DType::kF6E3M2FN, 3, -4},    {DType::kF4E2M1FN, 2, -1}};
  for (const Known& known : kFloats) {
    if (known.dtype != dtype) continue;
    attrs.bits = known.bits;
    attrs.least = known.least;
  }
}

}  // namespace

Value* text_constant(NodeImport& n, const std::vector<std::string>& texts) {
  return n.constant_value(make_strings({static_cast<int64_t>(texts.size())}, texts), "texts");
}

Value* number_as_text(NodeImport& n, Value* x) {
  const DType from = x->type.dtype;
  auto attrs = std::make_shared<FormatAttrs>();
  describe_float(from, *attrs);
  if (attrs->bits > 0) x = n.cast(x, DType::kF32);
  if (bit_width(from) < 8 && from != DType::kBool && attrs->bits == 0)
    x = n.cast(x, is_signed_int(from) ? DType::kI8 : DType::kU8);
  return n.add(text::format, {x}, attrs);
}

Value* text_as_number(NodeImport& n, Value* x, DType to) {
  auto attrs = std::make_shared<ParseAttrs>();
  attrs->to = to == DType::kF64 || to == DType::kBool ? to
              : is_float(to)                          ? DType::kF32
              : is_signed_int(to)                     ? DType::kI64
                                                      : DType::kU64;
  return n.add(text::parse, {x}, attrs);
}

void add_text_converters(ConverterTable& table) {
  table.push_back({"StringConcat", 20, convert_string_concat});
  table.push_back({"StringSplit", 20, convert_string_split});
  table.push_back({"StringNormalizer", 10, convert_string_normalizer});
  table.push_back({"RegexFullMatch", 20, convert_regex_full_match});
  table.push_back({"Tokenizer", 1, convert_tokenizer, kMicrosoft});
}

}  // namespace gantry
