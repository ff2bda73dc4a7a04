#include "host/cli/made_up_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>

#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/shape_errors.h"
#include "host/support/error.h"
#include "module_generated.h"

namespace gantry::cli {
namespace {

using module_format::BufferKind;
using module_format::DimOpcode;
using module_format::Manifest;
using module_format::SizeMeaning;
using module_format::TensorInfo;

constexpr int64_t kMostWorkspace = int64_t{1} << 30;
constexpr int64_t kLargestTried = 2048;               ///< where no usual size fits
constexpr int64_t kLargestSolved = int64_t{1} << 24;  ///< where an equality asks for it
constexpr int kMostChecks = 500000;                   ///< of sizes and of rules, before a search gives up
constexpr size_t kMostOpen = 64;                      ///< symbols

/// What is tried for a meaning, best first, and how reports call it.
struct Usual {
  std::vector<int64_t> sizes;
  const char* what;
};

Usual usual_sizes(SizeMeaning meaning) {
  // 48 is the height of a line of text.
  static const std::vector<int64_t> kImage = {224, 256, 320, 384, 512, 640, 192, 128,
                                              299, 96,  48,  64,  32,  16,  8};
  switch (meaning) {
    case SizeMeaning::Batch:
      return {{1, 2, 4, 8}, "a batch"};
    case SizeMeaning::Channels:
      return {{3, 1, 4, 64, 80, 128, 256, 512, 768, 1024}, "channels"};
    case SizeMeaning::Depth:
      return {{32, 16, 64, 128, 8}, "the depth of a volume"};
    case SizeMeaning::Height:
      return {kImage, "the height of an image"};
    case SizeMeaning::Width:
      return {kImage, "the width of an image"};
    case SizeMeaning::Samples:
      return {{16000, 48000, 8000, 16384, 4096, 1024, 512}, "samples of sound"};
    case SizeMeaning::Length:
      return {{128, 64, 256, 32, 512, 16, 100, 50, 1000, 8, 4, 2, 1}, "the length of a sequence"};
    default:
      return {{128, 64, 256, 32, 512, 16, 8, 4, 2, 1}, "a size of unknown meaning"};
  }
}

/// A guess for modules that do not say what their symbols measure.
SizeMeaning meaning_by_place(const Manifest& manifest, const TensorInfo& input, uint32_t axis) {
  const uint32_t rank = input.shape()->size();
  if (rank >= 2 && axis == 0) return SizeMeaning::Batch;
  if (rank != 4) return SizeMeaning::Length;
  const auto is_colours = [&](uint32_t at) {
    const auto size = runtime::constant_dim(*manifest.dim_exprs()->Get(input.shape()->Get(at)));
    return size && *size <= 4;
  };
  const uint32_t first = is_colours(1) ? 2 : is_colours(3) ? 1 : rank;
  return axis == first ? SizeMeaning::Height : axis == first + 1 ? SizeMeaning::Width : SizeMeaning::Length;
}

/// What must hold of an expression once its symbols have values.
struct Rule {
  enum class Kind : uint8_t { kEqual, kPositive, kAtMost } kind = Kind::kPositive;
  uint32_t left = 0, right = 0;  ///< expressions; right of kEqual only
};

class Search {
 public:
  Search(const Manifest& manifest, std::vector<std::optional<int64_t>> known,
         std::vector<SizeMeaning> meanings)
      : manifest_(manifest), meanings_(std::move(meanings)) {
    place_.assign(known.size(), -1);
    late_.assign(known.size(), true);
    for (const TensorInfo* input : *manifest.inputs()) {
      for (const uint32_t dim : *input->shape()) {
        if (const auto symbol = runtime::symbol_dim(*manifest.dim_exprs()->Get(dim))) late_[*symbol] = false;
      }
    }
    for (uint32_t i = 0; i < known.size(); ++i) {
      values_.push_back(known[i].value_or(1));
      if (known[i] || late_[i]) continue;
      place_[i] = static_cast<int>(open_.size());
      open_.push_back(i);
    }
    reasons_.resize(known.size());
  }

  void run() {
    if (open_.size() <= kMostOpen && (find(true) || find(false))) return;
    for (const uint32_t symbol : open_) {
      values_[symbol] = 1;
      reasons_[symbol] = "no size was found that the model's constraints allow";
    }
  }

  int64_t size(uint32_t symbol) const { return values_[symbol]; }
  const std::string& reason(uint32_t symbol) const { return reasons_[symbol]; }

 private:
  using Constraints = flatbuffers::Vector<flatbuffers::Offset<module_format::Constraint>>;

  /// `in_all`: with what branches need too, of which not all run, and with sizes equal that usually are.
  bool find(bool in_all) {
    if (!order_rules(in_all)) return false;
    return try_all(0) || try_all(1) || try_all(open_.size()) || try_each_last(in_all);
  }

  /// Rules by place, with open symbols in the order that they have now. False if nothing is asked for in all.
  bool order_rules(bool in_all) {
    for (size_t i = 0; i < open_.size(); ++i) place_[open_[i]] = static_cast<int>(i);
    rules_.assign(open_.size(), {});
    collect_rules();
    return !in_all || collect_wishes();
  }

  void add_equal(const Constraints* constraints) {
    for (uint32_t i = 0; constraints != nullptr && i < constraints->size(); ++i)
      add_rule({Rule::Kind::kEqual, constraints->Get(i)->left(), constraints->Get(i)->right()});
  }

  /// False where there are none.
  bool collect_wishes() {
    size_t before = 0, after = 0;
    for (const auto& rules : rules_) before += rules.size();
    for (const auto* variant : *manifest_.variants()) {
      add_equal(variant->equal());
      for (uint32_t i = 0; variant->plans() != nullptr && i < variant->plans()->size(); ++i)
        add_equal(variant->plans()->Get(i)->constraints());
    }
    for (const auto& rules : rules_) after += rules.size();
    return after > before;
  }

  void collect_rules() {
    add_equal(manifest_.constraints());
    std::set<uint32_t> positive;
    for (const TensorInfo* output : *manifest_.outputs())
      positive.insert(output->shape()->begin(), output->shape()->end());
    for (const auto* variant : *manifest_.variants()) {
      for (const auto* buffer : *variant->buffers()) positive.insert(buffer->bytes());
      add_rule({Rule::Kind::kAtMost, variant->workspace_bytes()});
    }
    for (const uint32_t expression : positive) add_rule({Rule::Kind::kPositive, expression});
  }

  /// Rules are checked when the last of their open symbols has its size; those without one never.
  void add_rule(const Rule& rule) {
    if (is_late(rule.left) || (rule.kind == Rule::Kind::kEqual && is_late(rule.right))) return;
    int last = last_symbol(rule.left);
    if (rule.kind == Rule::Kind::kEqual) last = std::max(last, last_symbol(rule.right));
    if (last >= 0) rules_[static_cast<size_t>(last)].push_back(rule);
  }

  /// Whether only the running program knows its value.
  bool is_late(uint32_t expression) const {
    for (const auto* step : *manifest_.dim_exprs()->Get(expression)->steps()) {
      if (step->opcode() == DimOpcode::Symbol && late_[static_cast<size_t>(step->value())]) return true;
    }
    return false;
  }

  int last_symbol(uint32_t expression) const {
    int last = -1;
    for (const auto* step : *manifest_.dim_exprs()->Get(expression)->steps()) {
      if (step->opcode() == DimOpcode::Symbol)
        last = std::max(last, place_[static_cast<size_t>(step->value())]);
    }
    return last;
  }

  std::optional<int64_t> value(uint32_t expression) const {
    const auto result = runtime::evaluate_dim(*manifest_.dim_exprs()->Get(expression), values_);
    return result.ok() ? std::optional(result.value()) : std::nullopt;
  }

  bool holds(const Rule& rule) const {
    const auto left = value(rule.left);
    if (!left) return false;
    if (rule.kind == Rule::Kind::kPositive) return *left > 0;
    if (rule.kind == Rule::Kind::kAtMost) return *left <= kMostWorkspace;
    return left == value(rule.right);
  }

  /// `unusual`: how many symbols may have a size that is not usual. One is mostly enough for a product that
  /// must be a given number, and has far fewer sizes to try than all of them.
  bool try_all(size_t unusual) {
    checks_ = 0;
    return try_from(0, unusual);
  }

  /// One symbol has the size that an equality asks for beside usual ones of all others: computed, as products
  /// of several have too many sizes to try. All symbols together take as long as one of the searches before.
  bool try_each_last(bool in_all) {
    const std::vector<uint32_t> order = open_;
    most_checks_ = kMostChecks / std::max(1, static_cast<int>(order.size()));
    solves_ = true;
    bool found = false;
    for (size_t i = order.size(); i-- > 0 && !found;) {
      open_ = order;
      const auto last = open_.begin() + static_cast<std::ptrdiff_t>(i);
      std::rotate(last, last + 1, open_.end());
      order_rules(in_all);
      found = try_all(0);
    }
    solves_ = false;
    most_checks_ = kMostChecks;
    open_ = order;
    return found;
  }

  /// The size of the last symbol for which an equality holds whose sides differ by a multiple of it, and a
  /// constant; none where there is no such equality, or no size.
  std::optional<int64_t> solved_size(size_t place) {
    for (const Rule& rule : rules_[place]) {
      if (rule.kind != Rule::Kind::kEqual) continue;
      const auto first = difference(rule, 1), second = difference(rule, 2);
      const auto last = difference(rule, kLargestTried);
      if (!first || !second || !last) continue;
      const __int128 step = *second - *first;
      if (step == 0 || *last - *first != step * (kLargestTried - 1)) continue;
      const __int128 size = 1 - *first / step;
      const bool fits = *first % step == 0 && size >= 1 && size <= kLargestSolved;
      return fits ? std::optional(static_cast<int64_t>(size)) : std::nullopt;
    }
    return std::nullopt;
  }

  /// By how much the sides of an equality differ with that size of the last symbol; none where one has no
  /// value.
  std::optional<__int128> difference(const Rule& rule, int64_t size) {
    values_[open_.back()] = size;
    ++checks_;
    const auto left = value(rule.left), right = value(rule.right);
    return left && right ? std::optional(__int128{*left} - *right) : std::nullopt;
  }

  bool has_given_up() const { return checks_ > most_checks_; }

  /// Sizes for the open symbols from the one at `place`; false if none fit, or none was found in time.
  bool try_from(size_t place, size_t unusual) {
    if (place == open_.size()) return true;
    const uint32_t symbol = open_[place];
    const Usual usual = usual_sizes(meanings_[symbol]);
    for (const int64_t size : usual.sizes) {
      if (has_given_up()) return false;
      if (!try_size(place, size, unusual)) continue;
      reasons_[symbol] =
          size == usual.sizes[0]
              ? fmt::format("usual for {}", usual.what)
              : fmt::format("the first usual one for {} that the model's constraints allow", usual.what);
      return true;
    }
    for (int64_t size = 1; unusual > 0 && size <= kLargestTried && !has_given_up(); ++size) {
      if (!try_size(place, size, unusual - 1)) continue;
      reasons_[symbol] = "the smallest that the model's constraints allow";
      return true;
    }
    if (!solves_ || place + 1 < open_.size() || has_given_up()) return false;
    const auto solved = solved_size(place);
    if (!solved || !try_size(place, *solved, unusual)) return false;
    reasons_[symbol] = "the one that the model's constraints ask for";
    return true;
  }

  bool try_size(size_t place, int64_t size, size_t unusual) {
    values_[open_[place]] = size;
    ++checks_;  // also where no rule asks for one
    for (const Rule& rule : rules_[place]) {
      if (++checks_ > most_checks_ || !holds(rule)) return false;
    }
    return try_from(place + 1, unusual);
  }

  const Manifest& manifest_;
  std::vector<SizeMeaning> meanings_;     ///< by symbol
  std::vector<int64_t> values_;           ///< by symbol
  std::vector<std::string> reasons_;      ///< by symbol
  std::vector<uint32_t> open_;            ///< symbols without a size
  std::vector<int> place_;                ///< of each symbol in open_, or -1
  std::vector<bool> late_;                ///< by symbol: a step of the plan gives it its size
  std::vector<std::vector<Rule>> rules_;  ///< by place
  int checks_ = 0;
  int most_checks_ = kMostChecks;  ///< before the search that is running gives up
  bool solves_ = false;            ///< sizes of the last symbol are computed, too
};

uint32_t symbol_count(const Manifest& manifest) {
  return manifest.symbols() == nullptr ? 0 : manifest.symbols()->size();
}

std::optional<uint32_t> symbol_at(const Manifest& manifest, const TensorInfo& input, uint32_t axis) {
  return runtime::symbol_dim(*manifest.dim_exprs()->Get(input.shape()->Get(axis)));
}

std::vector<std::string> symbol_names(const Manifest& manifest) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < symbol_count(manifest); ++i) names.push_back(manifest.symbols()->Get(i)->str());
  return names;
}

std::vector<std::optional<int64_t>> known_sizes(const Manifest& manifest,
                                                const std::map<std::string, int64_t>& sizes,
                                                const std::vector<std::vector<int64_t>>& shapes) {
  const std::vector<std::string> names = symbol_names(manifest);
  std::vector<std::optional<int64_t>> known(names.size());
  for (const auto& [name, size] : sizes) {
    const auto found = std::ranges::find(names, name);
    if (found != names.end()) known[static_cast<size_t>(found - names.begin())] = size;
  }
  for (uint32_t i = 0; i < shapes.size(); ++i) {
    for (uint32_t axis = 0; axis < shapes[i].size(); ++axis) {
      const auto symbol = symbol_at(manifest, *manifest.inputs()->Get(i), axis);
      if (symbol && shapes[i][axis] >= 0 && !known[*symbol]) known[*symbol] = shapes[i][axis];
    }
  }
  return known;
}

std::vector<SizeMeaning> meanings_of(const Manifest& manifest) {
  std::vector<SizeMeaning> meanings(symbol_count(manifest), SizeMeaning::Unknown);
  const auto* stored = manifest.symbol_meanings();
  for (uint32_t i = 0; stored != nullptr && i < meanings.size() && i < stored->size(); ++i)
    meanings[i] = stored->Get(i);
  if (stored != nullptr && stored->size() > 0) return meanings;
  for (const TensorInfo* input : *manifest.inputs()) {
    for (uint32_t axis = 0; axis < input->shape()->size(); ++axis) {
      const auto symbol = symbol_at(manifest, *input, axis);
      if (symbol && meanings[*symbol] == SizeMeaning::Unknown)
        meanings[*symbol] = meaning_by_place(manifest, *input, axis);
    }
  }
  return meanings;
}

}  // namespace

void check_size_names(const Manifest& manifest, const std::map<std::string, int64_t>& sizes) {
  const std::vector<std::string> names = symbol_names(manifest);
  for (const auto& [name, size] : sizes) {
    if (std::ranges::find(names, name) != names.end()) continue;
    user_error("{}={}: the module has no dimension '{}' that is open; {}", name, size, name,
               names.empty() ? "all are fixed" : fmt::format("it has {}", fmt::join(names, ", ")));
  }
}

std::vector<ChosenShape> choose_sizes(const Manifest& manifest, const std::map<std::string, int64_t>& sizes,
                                      const std::vector<std::vector<int64_t>>& shapes) {
  check_size_names(manifest, sizes);
  const auto known = known_sizes(manifest, sizes, shapes);
  const std::vector<SizeMeaning> meanings = meanings_of(manifest);
  Search search(manifest, known, meanings);
  search.run();
  std::vector<ChosenShape> result;
  for (uint32_t i = 0; i < shapes.size(); ++i) {
    ChosenShape& chosen = result.emplace_back();
    chosen.shape = shapes[i];
    for (uint32_t axis = 0; axis < shapes[i].size(); ++axis) {
      const auto symbol = symbol_at(manifest, *manifest.inputs()->Get(i), axis);
      if (!symbol || shapes[i][axis] >= 0) continue;
      const int64_t size = search.size(*symbol);
      chosen.shape[axis] = size;
      if (known[*symbol]) continue;
      const char* meaning = runtime::meaning_text(meanings[*symbol]);
      chosen.sizes.push_back(
          {manifest.symbols()->Get(*symbol)->str(), axis, meaning, size, search.reason(*symbol)});
    }
  }
  return result;
}

}  // namespace gantry::cli
