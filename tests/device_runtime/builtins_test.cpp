// Builtins on strings, and plans that call them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>

#include "device_runtime/builtins/functions.h"
#include "device_runtime/builtins/packed_strings.h"
#include "device_runtime/builtins/string_table.h"
#include "device_runtime/src/c_api.h"
#include "gantry/strings.h"
#include "tests/device_runtime/loaded_module.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LoadedModule;
using testing::ModuleBuilder;
using testing::share;
using Texts = std::vector<std::string>;

/// Tensors of a call, and the strings that they are of.
class Caller {
 public:
  BuiltinTensor texts(const std::vector<int64_t>& shape, const Texts& texts) {
    auto tensor = empty(ElementType::kString, shape);
    for (size_t i = 0; i < texts.size(); ++i) tensor.as<uint64_t>()[i] = *strings_.intern(texts[i]);
    return tensor;
  }
  template <typename T>
  BuiltinTensor numbers(ElementType type, const std::vector<T>& values) {
    auto tensor = empty(type, {static_cast<int64_t>(values.size())});
    std::memcpy(tensor.data, values.data(), values.size() * sizeof(T));
    return tensor;
  }
  BuiltinTensor empty(ElementType type, const std::vector<int64_t>& shape) {
    shapes_.push_back(shape);
    uint64_t bytes = 0;
    EXPECT_TRUE(dense_bytes(shape, type, &bytes));
    memory_.emplace_back(bytes + 1);
    return {type, shapes_.back(), memory_.back().data(), bytes / element_bytes(type)};
  }
  Status call(const char* function, std::vector<BuiltinTensor> inputs, std::vector<BuiltinTensor> outputs,
              std::vector<int64_t> integers = {}, const char* text = "") {
    return builtin_part()->call({function, inputs, outputs, integers, text, &strings_});
  }
  Texts said(const BuiltinTensor& tensor) const {
    Texts texts;
    for (uint64_t i = 0; i < tensor.elements; ++i)
      texts.emplace_back(*strings_.text(tensor.as<uint64_t>()[i]));
    return texts;
  }

 private:
  StringTable strings_{nullptr};
  std::deque<std::vector<int64_t>> shapes_;
  std::deque<std::vector<std::byte>> memory_;
};

TEST(Builtins, TextsAreJoinedAsNumPyBroadcasts) {
  Caller c;
  const auto result = c.empty(ElementType::kString, {2, 2});
  const Status status =
      c.call("text.concat", {c.texts({2, 1}, {"a", "b"}), c.texts({2}, {"", "ü"})}, {result});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(c.said(result), ElementsAre("a", "aü", "b", "bü"));
}

/// As Python's str.split: each text's parts, by calls of both functions.
std::vector<Texts> split(const Texts& texts, const char* delimiter, int64_t most = -1) {
  Caller c;
  const auto count = static_cast<int64_t>(texts.size());
  const auto given = c.texts({count}, texts);
  const auto counts = c.empty(ElementType::kI64, {count}), longest = c.empty(ElementType::kI64, {1});
  EXPECT_TRUE(c.call("text.split_counts", {given}, {counts, longest}, {most}, delimiter).ok());
  const int64_t width = *longest.as<int64_t>();
  const auto parts = c.empty(ElementType::kString, {count, width});
  EXPECT_TRUE(c.call("text.split", {given}, {parts}, {most}, delimiter).ok());
  const Texts all = c.said(parts);
  std::vector<Texts> result;
  for (int64_t i = 0; i < count; ++i) {
    const auto begin = all.begin() + i * width;
    result.emplace_back(begin, begin + counts.as<int64_t>()[i]);
    EXPECT_TRUE(
        std::all_of(begin + counts.as<int64_t>()[i], begin + width, [](const auto& t) { return t.empty(); }));
  }
  return result;
}

TEST(Builtins, TextsAreSplitAsPythonSplitsThem) {
  EXPECT_THAT(split({"a.b..c", "", ".", "abc"}, "."),
              ElementsAre(Texts{"a", "b", "", "c"}, Texts{""}, Texts{"", ""}, Texts{"abc"}));
  EXPECT_THAT(split({" a\t b\u3000c ", "", "  ", "\u00a0x"}, ""),
              ElementsAre(Texts{"a", "b", "c"}, Texts{}, Texts{}, Texts{"x"}));
  EXPECT_THAT(split({"a b  c d ", "a"}, "", 2), ElementsAre(Texts{"a", "b", "c d "}, Texts{"a"}));
  EXPECT_THAT(split({"a--b--c"}, "--", 1), ElementsAre(Texts{"a", "b--c"}));
  EXPECT_THAT(split({" a b "}, "", 0), ElementsAre(Texts{"a b "}));
}

Texts normalized(const Texts& words, const Texts& stopwords, int64_t change, bool is_case_sensitive) {
  Caller c;
  std::vector<BuiltinTensor> inputs{c.texts({static_cast<int64_t>(words.size())}, words)};
  if (!stopwords.empty()) inputs.push_back(c.texts({static_cast<int64_t>(stopwords.size())}, stopwords));
  const auto count = c.empty(ElementType::kI64, {1});
  const std::vector<int64_t> integers{change, is_case_sensitive ? 1 : 0};
  EXPECT_TRUE(c.call("text.kept_count", inputs, {count}, integers).ok());
  const auto kept = c.empty(ElementType::kString, {*count.as<int64_t>()});
  EXPECT_TRUE(c.call("text.normalize", inputs, {kept}, integers).ok());
  return c.said(kept);
}

TEST(Builtins, WordsAreNormalizedByUnicodesSimpleCases) {
  EXPECT_THAT(normalized({"Éa", "ЖЗ", "ß", "ǅ"}, {}, 1, true), ElementsAre("éa", "жз", "ß", "ǆ"));
  EXPECT_THAT(normalized({"éa", "жз", "ß", "ÿ"}, {}, 2, true), ElementsAre("ÉA", "ЖЗ", "ß", "Ÿ"));
  EXPECT_THAT(normalized({"Monday", "monday", "x"}, {"monday"}, 0, true), ElementsAre("Monday", "x"));
  EXPECT_THAT(normalized({"Monday", "MONDAY", "x"}, {"monday"}, 2, false), ElementsAre("X"));
  EXPECT_THAT(normalized({"a"}, {"a"}, 0, true), ElementsAre(""));
  EXPECT_THAT(normalized({"\xff\xc0q"}, {}, 2, true), ElementsAre("\xff\xc0Q"));
}

template <typename T>
Texts formatted(ElementType type, const std::vector<T>& values, int64_t bits = 0, int64_t least = 0) {
  Caller c;
  const auto result = c.empty(ElementType::kString, {static_cast<int64_t>(values.size())});
  const Status status = c.call("text.format", {c.numbers(type, values)}, {result}, {bits, least});
  EXPECT_TRUE(status.ok()) << status.message();
  return c.said(result);
}

TEST(Builtins, NumbersPrintAsNumPysStrDoes) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(
      formatted<float>(ElementType::kF32, {1, -0.0f, 0.1f, 1e-4f, 9e-5f, 16777216, 1e16f, 3.4e38f, 1e-45f}),
      ElementsAre("1.0", "-0.0", "0.1", "1e-04", "9e-05", "16777216.0", "1e+16", "3.4e+38", "1e-45"));
  EXPECT_THAT(formatted<float>(ElementType::kF32, {std::nanf(""), infinity, -infinity, 123456.789f}),
              ElementsAre("nan", "inf", "-inf", "123456.79"));
  EXPECT_THAT(formatted<double>(ElementType::kF64, {0.1, 1e15, 1e16, 2.0 / 3, 5e-324}),
              ElementsAre("0.1", "1000000000000000.0", "1e+16", "0.6666666666666666", "5e-324"));
  // numpy.float16: 0.1 is 0.0999755859375, and 65504 the largest.
  EXPECT_THAT(
      formatted<float>(ElementType::kF32, {0.0999755859375f, 65504, 1.0009765625f, 0x1p-24f}, 11, -24),
      ElementsAre("0.1", "65500.0", "1.001", "6e-08"));
  EXPECT_THAT(formatted<int8_t>(ElementType::kI8, {-128, 127}), ElementsAre("-128", "127"));
  EXPECT_THAT(formatted<uint64_t>(ElementType::kU64, {UINT64_MAX}), ElementsAre("18446744073709551615"));
  EXPECT_THAT(formatted<uint8_t>(ElementType::kBool, {0, 1}), ElementsAre("False", "True"));
}

TEST(Builtins, NumbersAreReadAsPythonReadsThem) {
  Caller c;
  const auto floats = c.empty(ElementType::kF32, {9});
  ASSERT_TRUE(c.call("text.parse",
                     {c.texts({9}, {"-1.5e400", "1.5e-400", " 1.5\n", "+2", "-1e-2", "INF", "-Infinity",
                                    "1e400", "NaN"})},
                     {floats})
                  .ok());
  const float infinity = std::numeric_limits<float>::infinity();
  const auto* f = floats.as<float>();
  EXPECT_THAT(std::vector(f, f + 8),
              ElementsAre(-infinity, 0.0f, 1.5f, 2.0f, -0.01f, infinity, -infinity, infinity));
  EXPECT_TRUE(std::isnan(f[8]));
  const auto whole = c.empty(ElementType::kI64, {2});
  ASSERT_TRUE(c.call("text.parse", {c.texts({2}, {"-9223372036854775808", "+7"})}, {whole}).ok());
  EXPECT_THAT(std::vector(whole.as<int64_t>(), whole.as<int64_t>() + 2), ElementsAre(INT64_MIN, 7));
  for (const char* wrong : {"", "1x", "+-1", "0x10", "nan(1)", "1,5"}) {
    const Status status = c.call("text.parse", {c.texts({1}, {wrong})}, {c.empty(ElementType::kF64, {1})});
    EXPECT_EQ(status.code(), GANTRY_INVALID_ARGUMENT) << wrong;
    EXPECT_THAT(status.message(), HasSubstr("is no f64"));
  }
  EXPECT_FALSE(
      c.call("text.parse", {c.texts({1}, {"9223372036854775808"})}, {c.empty(ElementType::kI64, {1})}).ok());
}

// As Python's float() has them.
TEST(Builtins, NumbersBeyondATypeAreInfiniteOrZeroByWhatTheyAreNotHowTheyAreWritten) {
  const std::string zeros(400, '0'), many(30, '9');
  const double infinity = std::numeric_limits<double>::infinity();
  const std::pair<std::string, double> cases[] = {
      {"1" + zeros, infinity},
      {"1" + zeros + "e-10", infinity},
      {"-1" + zeros + ".5E-10", -infinity},
      {"1e+400", infinity},
      {"0.001e400", infinity},
      {"0." + zeros + "1", 0},
      {"0." + zeros + "1e3", 0},
      {"." + zeros + "1e+3", 0},
      {"00." + zeros + "1", 0},
      {"-00." + zeros + "1", -0.0},
      {"1000e-400", 0},
      {"0." + zeros + "1e" + many, infinity},
      {"1" + zeros + "e-" + many, 0},
      {"0e" + many, 0},
  };
  for (const auto& [text, expected] : cases) {
    Caller c;
    const auto value = c.empty(ElementType::kF64, {1});
    const Status status = c.call("text.parse", {c.texts({1}, {text})}, {value});
    ASSERT_TRUE(status.ok()) << text << ": " << status.message();
    EXPECT_EQ(*value.as<double>(), expected) << text;
    EXPECT_EQ(std::signbit(*value.as<double>()), std::signbit(expected)) << text;
  }
}

TEST(Builtins, RanksOrderTexts) {
  Caller c;
  const auto ranks = c.empty(ElementType::kI64, {5});
  ASSERT_TRUE(c.call("text.ranks", {c.texts({5}, {"b", "a", "", "b", "ab"})}, {ranks}).ok());
  EXPECT_THAT(std::vector(ranks.as<int64_t>(), ranks.as<int64_t>() + 5), ElementsAre(3, 1, 0, 3, 2));
}

TEST(StringTable, ForgetsWhatARunHasMadeAndKeepsToItsLimit) {
  StringTable table(nullptr);
  ASSERT_TRUE(table.begin_run(1000).ok());
  EXPECT_EQ(*table.intern(""), 0u);
  const uint64_t a = *table.intern("a");
  EXPECT_EQ(*table.intern("a"), a);
  EXPECT_EQ(*table.text(a), "a");
  const auto large = table.intern(std::string(1000, 'x'));
  EXPECT_EQ(large.status().code(), GANTRY_OUT_OF_MEMORY);
  ASSERT_TRUE(table.begin_run(1000).ok());
  EXPECT_EQ(table.text(a).status().code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(table.bytes(), 0u);
}

TEST(PackedStrings, ComeBackAndForeignBytesAreChecked) {
  const std::string_view texts[] = {"", "ab", std::string_view("\0x", 2)};
  const std::vector<std::byte> packed = *pack_strings(texts);
  EXPECT_THAT(*unpack_strings(3, packed), ::testing::ElementsAreArray(texts));
  EXPECT_FALSE(unpack_strings(4, packed).ok());
  EXPECT_FALSE(unpack_strings(UINT64_MAX, packed).ok());
  EXPECT_FALSE(unpack_strings(3, std::span(packed).first(packed.size() - 1)).ok());
  EXPECT_FALSE(unpack_strings(2, packed).ok());
}

/// out = in joined with the module's string "!", both of (2).
ModuleBuilder shouting_module() {
  ModuleBuilder builder;
  builder.manifest.requires_ = {"plan-2", "strings"};
  builder.manifest.strings = {"", "!"};
  const uint32_t two = builder.constant(2), bytes = builder.constant(16), zero = builder.constant(0);
  builder.add_input("in", {two}, ElementType::kString);
  builder.add_output("out", {two}, ElementType::kString);
  const uint32_t in = builder.input_buffer(0, bytes), out = builder.output_buffer(0, bytes);
  uint64_t number = 1;
  float as_floats[2];
  std::memcpy(as_floats, &number, sizeof number);
  const uint32_t mark = builder.constant_buffer(as_floats);
  auto stretch = std::make_unique<module_format::StretchT>();
  stretch->workspace_bytes = stretch->kept_bytes = zero;
  builder.variant().stretches.push_back(std::move(stretch));
  module_format::CallBuiltinT call;
  call.function = "text.concat";
  const auto tensor = [&](uint32_t buffer, std::vector<uint32_t> shape) {
    auto made = std::make_unique<module_format::BuiltinTensorT>();
    made->buffer = buffer;
    made->dtype = module_format::DType::String;
    made->shape = std::move(shape);
    return made;
  };
  call.inputs.push_back(tensor(in, {two}));
  call.inputs.push_back(tensor(mark, {}));
  call.outputs.push_back(tensor(out, {two}));
  call.origin = {"Concat_7"};
  auto step = std::make_unique<module_format::StepT>();
  step->action.Set(std::move(call));
  builder.variant().steps.push_back(std::move(step));
  return builder;
}

Texts outputs_of(GantrySession* session) {
  DLTensor view{};
  EXPECT_EQ(gantry_get_output(session, 0, &view), GANTRY_OK) << gantry_last_error();
  EXPECT_EQ(view.dtype.code, kDLOpaqueHandle);
  Texts texts;
  for (int64_t i = 0; i < view.shape[0]; ++i) {
    const char* text = nullptr;
    size_t length = 0;
    EXPECT_EQ(gantry_get_string(session, static_cast<uint64_t*>(view.data)[i], &text, &length), GANTRY_OK);
    texts.emplace_back(text, length);
  }
  return texts;
}

TEST(StringsOfModules, GoInAndComeOutRunByRun) {
  const LoadedModule loaded(shouting_module());
  ASSERT_EQ(loaded.status, GANTRY_OK) << loaded.message;
  const int64_t shape[] = {2};
  const char* first[] = {"a", ""};
  ASSERT_EQ(gantry_set_strings(loaded.session, 0, shape, 1, first, nullptr), GANTRY_OK)
      << gantry_last_error();
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(gantry_run(loaded.session), GANTRY_OK) << gantry_last_error();
    EXPECT_THAT(outputs_of(loaded.session), ElementsAre("a!", "!"));
  }
  const char* second[] = {"xyz", "ö"};
  const size_t lengths[] = {1, 2};
  ASSERT_EQ(gantry_set_strings(loaded.session, 0, shape, 1, second, lengths), GANTRY_OK);
  ASSERT_EQ(gantry_run(loaded.session), GANTRY_OK);
  EXPECT_THAT(outputs_of(loaded.session), ElementsAre("x!", "ö!"));
}

TEST(StringsOfModules, WrongRequestsAreNamed) {
  const LoadedModule loaded(shouting_module());
  ASSERT_EQ(loaded.status, GANTRY_OK) << loaded.message;
  uint64_t numbers[] = {0, 0};
  int64_t shape[] = {2};
  DLTensor tensor{};
  tensor.data = numbers;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLOpaqueHandle, 64, 1};
  tensor.shape = shape;
  EXPECT_EQ(gantry_set_input(loaded.session, 0, &tensor, 0), GANTRY_INVALID_ARGUMENT);
  EXPECT_THAT(gantry_last_error(), HasSubstr("gantry_set_strings"));
  const char* texts[] = {"a", "b", "c"};
  const int64_t three[] = {3};
  EXPECT_EQ(gantry_set_strings(loaded.session, 0, three, 1, texts, nullptr), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_set_strings(loaded.session, 1, shape, 1, texts, nullptr), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_run(loaded.session), GANTRY_INVALID_ARGUMENT);
  EXPECT_THAT(gantry_last_error(), HasSubstr("'in' has not been set"));
}

TEST(StringsOfModules, DamagedManifestsAreRefused) {
  const auto message = [](const auto& damage) {
    ModuleBuilder builder = shouting_module();
    damage(builder, *builder.variant().steps[0]->action.AsCallBuiltin());
    const LoadedModule loaded(std::move(builder));
    EXPECT_NE(loaded.status, GANTRY_OK);
    return loaded.message;
  };
  EXPECT_THAT(message([](auto& b, auto&) { b.manifest.requires_ = {"plan-2"}; }),
              HasSubstr("does not require"));
  EXPECT_THAT(message([](auto& b, auto&) { b.manifest.strings = {"!"}; }), HasSubstr("first string"));
  EXPECT_THAT(message([](auto& b, auto&) { b.variant().stretches.clear(); }), HasSubstr("no stretches"));
  EXPECT_THAT(message([](auto&, auto& call) { call.function = "text.gone"; }), HasSubstr("text.gone"));
  EXPECT_THAT(message([](auto&, auto& call) { call.inputs[0]->buffer = 99; }), HasSubstr("not there"));
  EXPECT_THAT(message([](auto&, auto& call) { call.outputs[0]->buffer = 0; }), HasSubstr("cannot be there"));
  EXPECT_THAT(message([](auto&, auto& call) { call.inputs[0]->shape = {99}; }), HasSubstr("not in the list"));
}

TEST(StringsOfModules, NumbersOfNoStringEndTheRun) {
  ModuleBuilder builder = shouting_module();
  builder.manifest.strings = {""};  // the constant is number 1
  const LoadedModule loaded(std::move(builder));
  ASSERT_EQ(loaded.status, GANTRY_OK) << loaded.message;
  const int64_t shape[] = {2};
  const char* texts[] = {"", ""};
  ASSERT_EQ(gantry_set_strings(loaded.session, 0, shape, 1, texts, nullptr), GANTRY_OK);
  EXPECT_NE(gantry_run(loaded.session), GANTRY_OK);
  EXPECT_THAT(gantry_last_error(), HasSubstr("Concat_7"));
}

}  // namespace
}  // namespace gantry::runtime
