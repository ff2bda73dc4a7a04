#include "host/cli/memory_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "host/cli/plan_json.h"
#include "host/cli/text.h"
#include "host/passes/memory_bound.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Known offsets by their size, before those that are not.
bool lies_before(const MemoryMap::Value& a, const MemoryMap::Value& b) {
  const auto x = a.offset.constant(), y = b.offset.constant();
  if (x && y && *x != *y) return *x < *y;
  if (x.has_value() != y.has_value()) return x.has_value();
  if (!x && !(a.offset == b.offset)) return a.offset.str() < b.offset.str();
  return a.first < b.first;
}

/// The bound of sizes of so few symbols that it can be read, and found: to compare two sums takes a time that
/// grows with each.
std::optional<Dim> readable_bound(const std::vector<Lifetime<Dim>>& lifetimes) {
  constexpr size_t kMostSymbols = 8;
  std::set<std::string> symbols;
  for (const Lifetime<Dim>& lifetime : lifetimes) {
    for (const std::string& symbol : lifetime.bytes.symbols()) symbols.insert(symbol);
  }
  return symbols.size() > kMostSymbols ? std::nullopt : std::optional(memory_bound(lifetimes));
}

MemoryMap map_of(const module_format::Variant& variant, const ManifestDims& dims, const ProgramFacts& facts,
                 bool on_gpu) {
  MemoryMap map;
  std::vector<Lifetime<Dim>> lifetimes;
  for (uint32_t i = 0; i < variant.buffers()->size(); ++i) {
    const ProgramValue& value = facts.values[i];
    if (value.kind != ProgramValue::Kind::kWorkspace || value.on_gpu != on_gpu || !value.first_step) continue;
    const auto* buffer = variant.buffers()->Get(i);
    const Dim bytes = dims.get(buffer->bytes());
    map.values.push_back(
        {value.name, dims.get(buffer->offset()), bytes, *value.first_step, *value.last_step});
    lifetimes.push_back({*value.first_step, *value.last_step, aligned_bytes(bytes)});
  }
  std::ranges::stable_sort(map.values, lies_before);
  if (on_gpu) map.memory = "GPU workspace";
  map.steps = facts.steps.size();
  map.bytes = dims.get(on_gpu ? variant.gpu_workspace_bytes() : variant.workspace_bytes());
  map.bound = readable_bound(lifetimes);
  return map;
}

/// "3211264 bytes (3.1 MiB)", "64*N bytes"
std::string amount(const Dim& bytes) {
  if (!bytes.is_constant()) return bytes.str() + " bytes";
  const std::string readable = bytes_text(static_cast<double>(bytes.value()));
  return fmt::format("{} bytes{}", bytes.str(), bytes.value() < 1024 ? "" : " (" + readable + ")");
}

/// A character for each of `width` equal parts of the plan.
std::string bar(const MemoryMap::Value& value, size_t steps, size_t width) {
  std::string text(width, '.');
  for (size_t i = 0; i < width; ++i) {
    const size_t begin = i * steps / width, end = std::max((i + 1) * steps / width, begin + 1);
    if (value.first < end && begin <= value.last) text[i] = '#';
  }
  return text;
}

}  // namespace

double MemoryMap::ratio() const {
  if (!bytes.is_constant() || !bound || !bound->is_constant()) return 0;
  return bound->value() == 0 ? 1 : static_cast<double>(bytes.value()) / static_cast<double>(bound->value());
}

std::vector<MemoryMap> memory_maps(const module_format::Manifest& manifest,
                                   const module_format::Variant& variant, const ProgramFacts& facts) {
  const ManifestDims dims(manifest);
  std::vector<MemoryMap> maps;
  for (const bool on_gpu : {false, true}) {
    MemoryMap map = map_of(variant, dims, facts, on_gpu);
    if (!map.values.empty()) maps.push_back(std::move(map));
  }
  return maps;
}

std::string to_text(const MemoryMap& map, size_t width) {
  constexpr size_t kWidest = 64, kNarrowest = 8, kIndent = 2;
  const size_t room = width == 0 ? kWidest : std::clamp(width / 3, kNarrowest, kWidest);
  std::string text = fmt::format("{}: {}\n", map.memory, amount(map.bytes));
  if (map.bound)
    text += fmt::format("{:{}}at least {}: what lives at once\n", "", kIndent, amount(*map.bound));
  if (const double ratio = map.ratio(); ratio > 0)
    text += fmt::format("{:{}}the plan takes {:.3f} times that\n", "", kIndent, ratio);
  using Align = Table::Align;
  // Figures are never cut; expressions may have to be.
  const bool known = std::ranges::all_of(map.values, [](const MemoryMap::Value& value) {
    return value.offset.is_constant() && value.bytes.is_constant();
  });
  Table table({{"offset", known ? Align::kRight : Align::kLeft},
               {"bytes", known ? Align::kRight : Align::kLeft},
               {"steps", Align::kLeft},
               {fmt::format("#0 to #{}", map.steps - 1), Align::kLeft},
               {"value", Align::kLeft}});
  for (const MemoryMap::Value& value : map.values) {
    const std::string steps = value.first == value.last ? fmt::format("#{}", value.first)
                                                        : fmt::format("#{}-#{}", value.first, value.last);
    table.row({value.offset.str(), value.bytes.str(), steps, bar(value, map.steps, std::min(room, map.steps)),
               value.name});
  }
  return text + table.str(kIndent, width);
}

Json to_json(const MemoryMap& map) {
  Json json;
  json["memory"] = map.memory;
  json["bytes"] = dim_json(map.bytes);
  json["bound_bytes"] = map.bound ? dim_json(*map.bound) : Json(nullptr);
  json["ratio"] = map.ratio() > 0 ? Json(map.ratio()) : Json(nullptr);
  json["values"] = Json::array();
  for (const MemoryMap::Value& value : map.values) {
    json["values"].push_back({{"name", value.name},
                              {"offset", dim_json(value.offset)},
                              {"bytes", dim_json(value.bytes)},
                              {"first_step", value.first},
                              {"last_step", value.last}});
  }
  return json;
}

}  // namespace gantry::cli
