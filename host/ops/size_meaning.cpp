#include "host/ops/size_meaning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <vector>

#include "host/ops/image.h"
#include "host/ops/op.h"

namespace gantry {
namespace {

using Meanings = std::map<std::string, SizeMeaning>;

/// Words of a name in lower case: "pastSeq_len" -> past, seq, len.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  bool after_lower = false;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool starts = std::isupper(byte) != 0 && after_lower;
    if (std::isalnum(byte) == 0 || starts) words.emplace_back();
    if (std::isalnum(byte) != 0) words.back() += static_cast<char>(std::tolower(byte));
    after_lower = std::islower(byte) != 0;
  }
  std::erase(words, "");
  return words;
}

struct Word {
  std::string_view text;
  bool begins;  ///< names begin so; else the whole word is that
  SizeMeaning meaning;
};
constexpr Word kWords[] = {
    {"batch", true, SizeMeaning::kBatch},      {"bs", false, SizeMeaning::kBatch},
    {"bsz", false, SizeMeaning::kBatch},       {"n", false, SizeMeaning::kBatch},
    {"b", false, SizeMeaning::kBatch},         {"height", true, SizeMeaning::kHeight},
    {"h", false, SizeMeaning::kHeight},        {"rows", false, SizeMeaning::kHeight},
    {"width", true, SizeMeaning::kWidth},      {"w", false, SizeMeaning::kWidth},
    {"cols", false, SizeMeaning::kWidth},      {"depth", false, SizeMeaning::kDepth},
    {"sample", true, SizeMeaning::kSamples},   {"audio", true, SizeMeaning::kSamples},
    {"channel", true, SizeMeaning::kChannels}, {"c", false, SizeMeaning::kChannels},
    {"seq", true, SizeMeaning::kLength},       {"length", false, SizeMeaning::kLength},
    {"len", false, SizeMeaning::kLength},      {"time", true, SizeMeaning::kLength},
    {"step", true, SizeMeaning::kLength},      {"token", true, SizeMeaning::kLength},
    {"frame", true, SizeMeaning::kLength},     {"t", false, SizeMeaning::kLength},
    {"l", false, SizeMeaning::kLength},        {"s", false, SizeMeaning::kLength},
};

SizeMeaning meaning_of_name(std::string_view name) {
  const std::vector<std::string> words = words_of(name);
  for (const Word& known : kWords) {
    const auto says = [&](const std::string& word) {
      return known.begins ? word.starts_with(known.text) : word == known.text;
    };
    if (std::ranges::any_of(words, says)) return known.meaning;
  }
  return SizeMeaning::kUnknown;
}

/// The symbol that a dimension is computed from, if it is one alone.
std::optional<std::string> only_symbol(const Dim& dim) {
  if (dim.is_constant()) return std::nullopt;
  const std::vector<std::string> symbols = dim.symbols();
  return symbols.size() == 1 ? std::optional(symbols[0]) : std::nullopt;
}

/// The first to say what a symbol means is believed.
void learn(Meanings& meanings, const Dim& dim, SizeMeaning meaning) {
  const auto symbol = only_symbol(dim);
  if (!symbol) return;
  auto found = meanings.find(*symbol);
  if (found != meanings.end() && found->second == SizeMeaning::kUnknown) found->second = meaning;
}

SizeMeaning spatial_meaning(size_t axis, size_t count) {
  static constexpr SizeMeaning kImage[] = {SizeMeaning::kDepth, SizeMeaning::kHeight, SizeMeaning::kWidth};
  if (count == 1) return SizeMeaning::kLength;
  if (count > std::size(kImage)) return SizeMeaning::kUnknown;
  return kImage[std::size(kImage) - count + axis];
}

/// `shape` is (N, C, spatial…), or (N, spatial…, C).
void learn_image(Meanings& meanings, const Shape& shape, bool channels_last) {
  const size_t count = shape.size() - 2, first = static_cast<size_t>(first_spatial_axis(channels_last));
  learn(meanings, shape[0], SizeMeaning::kBatch);
  for (size_t i = 0; i < count; ++i) learn(meanings, shape[first + i], spatial_meaning(i, count));
  learn(meanings, shape[static_cast<size_t>(channel_axis(channels_last, static_cast<int>(shape.size())))],
        SizeMeaning::kChannels);
}

/// Names that the importer invents say where a dimension stands, not what it is.
bool is_invented(const std::string& symbol, const std::string& input, size_t axis) {
  return symbol.starts_with(input) && symbol.substr(input.size()).starts_with(fmt::format("_d{}", axis));
}

void learn_names(Meanings& meanings, const Function& main) {
  for (const Value* input : main.parameters) {
    for (size_t axis = 0; axis < input->type.shape.size(); ++axis) {
      const Dim& dim = input->type.shape[axis];
      if (!dim.is_symbol()) continue;
      const std::string name = dim.str();
      meanings.try_emplace(name, SizeMeaning::kUnknown);
      if (!is_invented(name, input->name, axis)) learn(meanings, dim, meaning_of_name(name));
    }
  }
}

void learn_ops(Meanings& meanings, const Function& main) {
  for (const Node* node : main.nodes()) {
    if (op_def(*node).layout != LayoutBehaviour::kChannelAware) continue;
    const Shape& shape = node->inputs[0]->type.shape;
    if (shape.size() < 3) continue;
    learn_image(meanings, shape, node->attrs_as<ImageAttrs>().channels_last);
  }
}

/// Few and known: the colours of an image.
bool is_colours(const Dim& dim) {
  return dim.is_constant() && dim.value() <= 4;
}

void learn_places(Meanings& meanings, const TensorType& type) {
  const Shape& shape = type.shape;
  if (shape.size() >= 4 && is_float(type.dtype) && (is_colours(shape[1]) || is_colours(shape.back()))) {
    learn_image(meanings, shape, !is_colours(shape[1]));
  }
  if (shape.size() >= 2) learn(meanings, shape[0], SizeMeaning::kBatch);
  for (const Dim& dim : shape) learn(meanings, dim, SizeMeaning::kLength);
}

}  // namespace

std::map<std::string, SizeMeaning> size_meanings(const Function& main) {
  Meanings meanings;
  learn_names(meanings, main);
  learn_ops(meanings, main);
  for (const Value* input : main.parameters) learn_places(meanings, input->type);
  return meanings;
}

}  // namespace gantry
