#include "device_runtime/src/shape_errors.h"

#include <algorithm>
#include <cinttypes>
#include <string>
#include <string_view>
#include <vector>

#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/fitting_sizes.h"
#include "device_runtime/src/status.h"

namespace gantry::runtime {
namespace {

using module_format::Constraint;
using module_format::DimExpr;
using module_format::DimOpcode;
using module_format::Manifest;
using module_format::SizeMeaning;

const DimExpr& program_of(const Manifest& manifest, uint32_t index) {
  return *manifest.dim_exprs()->Get(index);
}

/// Symbols that the constraint depends on, in order, once each.
std::vector<uint32_t> symbols_of(const Manifest& manifest, const Constraint& constraint) {
  std::vector<uint32_t> symbols;
  for (const uint32_t side : {constraint.left(), constraint.right()}) {
    for (const auto* step : *program_of(manifest, side).steps()) {
      if (step->opcode() == DimOpcode::Symbol) symbols.push_back(static_cast<uint32_t>(step->value()));
    }
  }
  std::sort(symbols.begin(), symbols.end());
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  return symbols;
}

bool holds(const Manifest& manifest, const Constraint& constraint, std::span<const int64_t> symbols) {
  const Result<int64_t> left = evaluate_dim(program_of(manifest, constraint.left()), symbols);
  const Result<int64_t> right = evaluate_dim(program_of(manifest, constraint.right()), symbols);
  return left.ok() && right.ok() && left.value() == right.value();
}

// What is tried some thousand times stays short, whatever a module holds.
constexpr size_t kMaxSteps = 4096;
constexpr size_t kMaxSymbols = 8;

size_t steps_of(const Manifest& manifest, const Constraint& constraint) {
  return program_of(manifest, constraint.left()).steps()->size() +
         program_of(manifest, constraint.right()).steps()->size();
}

/// Whether sizes of `symbol` fit while the others stay: those that break another constraint of this symbol
/// alone do not.
std::function<bool(int64_t)> fits(const Manifest& manifest, const Constraint& broken, uint32_t symbol,
                                  std::span<const int64_t> given) {
  std::vector<const Constraint*> needed = {&broken};
  size_t steps = steps_of(manifest, broken);
  for (const Constraint* other : *manifest.constraints()) {
    if (other == &broken || symbols_of(manifest, *other) != std::vector<uint32_t>{symbol}) continue;
    steps += steps_of(manifest, *other);
    if (steps <= kMaxSteps) needed.push_back(other);
  }
  return [&manifest, needed, symbol,
          values = std::vector<int64_t>(given.begin(), given.end())](int64_t size) mutable {
    values[symbol] = size;
    return std::all_of(needed.begin(), needed.end(),
                       [&](const Constraint* constraint) { return holds(manifest, *constraint, values); });
  };
}

/// The first input with that dimension.
std::string place_of(const Manifest& manifest, uint32_t symbol) {
  const std::string name = manifest.symbols()->Get(symbol)->str();
  const auto* meanings = manifest.symbol_meanings();
  const bool known = meanings != nullptr && symbol < meanings->size();
  for (const auto* info : *manifest.inputs()) {
    for (uint32_t axis = 0; axis < info->shape()->size(); ++axis) {
      if (symbol_dim(program_of(manifest, info->shape()->Get(axis))) != symbol) continue;
      return dimension_place(info->name()->str(), axis, name,
                             meaning_text(known ? meanings->Get(symbol) : SizeMeaning::Unknown));
    }
  }
  return name;
}

/// "N = 3 must equal M = 4"
std::string equation(const Manifest& manifest, const Constraint& constraint,
                     std::span<const int64_t> symbols) {
  std::string text;
  for (const uint32_t side : {constraint.left(), constraint.right()}) {
    const DimExpr& program = program_of(manifest, side);
    text += (text.empty() ? "" : " must equal ") + dim_text(program, manifest);
    const Result<int64_t> value = evaluate_dim(program, symbols);
    if (value.ok() && !constant_dim(program)) text += format_text(" = %" PRId64, value.value());
  }
  return text;
}

}  // namespace

const char* meaning_text(SizeMeaning meaning) {
  switch (meaning) {
    case SizeMeaning::Batch:
      return "batch";
    case SizeMeaning::Channels:
      return "channels";
    case SizeMeaning::Depth:
      return "depth";
    case SizeMeaning::Height:
      return "height";
    case SizeMeaning::Width:
      return "width";
    case SizeMeaning::Length:
      return "length";
    case SizeMeaning::Samples:
      return "samples";
    default:
      return "";
  }
}

Status broken_by_data(const Manifest& manifest, const Constraint& broken, int64_t left, int64_t right,
                      std::span<const int64_t> symbols) {
  const DimExpr &first = program_of(manifest, broken.left()), &second = program_of(manifest, broken.right());
  const char* const origin = broken.origin() == nullptr ? "it" : broken.origin()->c_str();
  constexpr char kUnfit[] = "the data do not fit the model: ";
  if (constant_dim(first) && constant_dim(second) && broken.origin() != nullptr)  // a plan that cannot be run
    return failure(GANTRY_INVALID_ARGUMENT, "%s%s", kUnfit, origin);
  const std::vector<uint32_t> involved = symbols_of(manifest, broken);
  std::string sizes;
  for (const uint32_t symbol : involved) {
    sizes += format_text("%s%s is %" PRId64, sizes.empty() ? "" : ", ",
                         manifest.symbols()->Get(symbol)->c_str(), symbols[symbol]);
  }
  // Words that say what must hold stand for the equation.
  if (std::string_view(origin).ends_with(')') && !sizes.empty())
    return failure(GANTRY_INVALID_ARGUMENT, "%s%s, but %s", kUnfit, origin, sizes.c_str());
  const std::string needed = constant_dim(second)
                                 ? format_text(", and %s needs it to be %" PRId64, origin, right)
                                 : format_text(", but %s is %" PRId64 ", and %s needs them to be equal",
                                               dim_text(second, manifest).c_str(), right, origin);
  // Where each side is a size by itself, that says it all.
  const bool has_sizes = involved.size() > 1 && !(symbol_dim(first) && symbol_dim(second));
  std::string text =
      format_text("%s%s is %" PRId64 "%s", kUnfit, dim_text(first, manifest).c_str(), left, needed.c_str());
  if (has_sizes) text += format_text(" (%s)", sizes.c_str());
  return Status(GANTRY_INVALID_ARGUMENT, text);
}

Status broken_constraint(const Manifest& manifest, const Constraint& broken,
                         std::span<const int64_t> symbols) {
  std::vector<SuspectSize> sizes;
  const std::vector<uint32_t> involved = symbols_of(manifest, broken);
  if (involved.size() <= kMaxSymbols && steps_of(manifest, broken) <= kMaxSteps) {
    for (const uint32_t symbol : involved)
      sizes.push_back({place_of(manifest, symbol), symbols[symbol], fits(manifest, broken, symbol, symbols)});
  }
  return Status(GANTRY_INVALID_ARGUMENT,
                broken_sizes(sizes, equation(manifest, broken, symbols),
                             broken.origin() == nullptr ? "" : broken.origin()->str()));
}

}  // namespace gantry::runtime
