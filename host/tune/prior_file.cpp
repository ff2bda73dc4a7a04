#include "host/tune/prior_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "host/support/error.h"
#include "host/tune/candidate_features.h"

namespace gantry::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "gantry-prior";
constexpr int64_t kVersion = 1;
/// More is learned from in no time that a tuner has.
constexpr size_t kMostExamples = 20000;
/// In front of the features of an example: its cost, and what is predicted.
constexpr size_t kHead = 2;

/// To six digits, whatever its size: what is predicted is millions of cycles of a CPU, and 1e-5 seconds of a
/// GPU.
Json rounded(double number) {
  if (!std::isfinite(number)) return nullptr;
  const std::string digits = fmt::format("{:.6g}", number);
  double near = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), near);
  return near;
}

Json json_of(const Example& example) {
  Json json = Json::array({rounded(example.cost), nullptr});
  if (example.prospect.predicted) json[1] = rounded(*example.prospect.predicted);
  for (const float feature : example.prospect.features) json.push_back(rounded(feature));
  return json;
}

/// A member of a type; a user error where it is of another.
const Json& member(const Json& json, const char* name, Json::value_t type) {
  const auto found = json.find(name);
  if (found == json.end() || found->type() != type) user_error("'{}' is missing, or of another type", name);
  return *found;
}

class PriorReader {
 public:
  explicit PriorReader(const Json& json) {
    const std::vector<std::string>& own = feature_names();
    for (const Json& name : member(json, "features", Json::value_t::array)) {
      if (!name.is_string()) user_error("'features' has something that is no name");
      const auto found = std::ranges::find(own, name.get<std::string>());
      places_.push_back(found == own.end() ? own.size() : static_cast<size_t>(found - own.begin()));
    }
  }

  PriorGroup group(const Json& json) {
    PriorGroup group;
    group.precision = member(json, "precision", Json::value_t::string).get<std::string>();
    group.op = member(json, "op", Json::value_t::string).get<std::string>();
    group.work = member(json, "work", Json::value_t::string).get<std::string>();
    for (const Json& example : member(json, "examples", Json::value_t::array))
      group.examples.push_back(this->example(example));
    return group;
  }

 private:
  Example example(const Json& json) {
    if (++count_ > kMostExamples) user_error("more than {} examples", kMostExamples);
    if (!json.is_array() || json.size() != kHead + places_.size())
      user_error("an example that has not {} numbers", kHead + places_.size());
    Example example;
    example.cost = number(json[0]).value_or(0);
    if (!(example.cost > 0 && std::isfinite(example.cost))) user_error("an example whose cost is none");
    example.prospect.predicted = number(json[1]);
    example.prospect.features.assign(feature_names().size(), std::numeric_limits<float>::quiet_NaN());
    for (size_t i = 0; i < places_.size(); ++i) {
      const std::optional<double> value = number(json[kHead + i]);
      if (value && places_[i] < example.prospect.features.size())
        example.prospect.features[places_[i]] = static_cast<float>(*value);
    }
    return example;
  }

  static std::optional<double> number(const Json& json) {
    if (json.is_null()) return std::nullopt;
    if (!json.is_number()) user_error("an example with something that is no number");
    const auto value = json.get<double>();
    // As a float it would be none.
    if (!(std::abs(value) < std::numeric_limits<float>::max()))
      user_error("an example with a number that is too large");
    return value;
  }

  std::vector<size_t>
      places_;  ///< of the file's features among this program's; their number: it has none of it
  size_t count_ = 0;
};

PriorFile read(const Json& json) {
  const bool is_prior = json.is_object() && json.contains("schema") && json["schema"] == std::string(kSchema);
  if (!is_prior) user_error("is no prior of a cost model");
  const auto version = member(json, "version", Json::value_t::number_unsigned).get<int64_t>();
  if (version != kVersion)
    user_error("is of version {}; this gantry reads version {}: update it, or who wrote that", version,
               kVersion);
  PriorFile prior;
  prior.family = member(json, "family", Json::value_t::string).get<std::string>();
  PriorReader reader(json);
  for (const Json& group : member(json, "groups", Json::value_t::array))
    prior.groups.push_back(reader.group(group));
  return prior;
}

}  // namespace

size_t PriorFile::examples() const {
  size_t count = 0;
  for (const PriorGroup& group : groups) count += group.examples.size();
  return count;
}

std::string prior_text(const PriorFile& prior) {
  Json json = {{"schema", std::string(kSchema)},
               {"version", kVersion},
               {"family", prior.family},
               {"features", feature_names()}};
  json["groups"] = Json::array();
  for (const PriorGroup& group : prior.groups) {
    Json examples = Json::array();
    for (const Example& example : group.examples) examples.push_back(json_of(example));
    json["groups"].push_back({{"precision", group.precision},
                              {"op", group.op},
                              {"work", group.work},
                              {"examples", std::move(examples)}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

PriorFile parse_prior(std::string_view text, const std::string& file) {
  try {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) user_error("is no JSON");
    return read(json);
  } catch (const Error& error) {
    throw Error(error.kind(), file + ": " + error.what());
  }
}

std::vector<Example> examples_of(const PriorFile& prior, std::string_view precision, size_t first_group) {
  std::vector<Example> examples;
  for (const PriorGroup& group : prior.groups) {
    if (group.precision != precision) continue;
    for (const Example& example : group.examples) {
      examples.push_back(example);
      examples.back().group = first_group;
    }
    ++first_group;
  }
  return examples;
}

PriorFile merged(PriorFile prior, const PriorFile& other, size_t most) {
  const auto key_of = [](const PriorGroup& group) { return std::pair(group.precision, group.work); };
  std::set<std::pair<std::string, std::string>> known;
  for (const PriorGroup& group : prior.groups) known.insert(key_of(group));
  size_t count = prior.examples();
  for (const PriorGroup& group : other.groups) {
    if (known.contains(key_of(group))) continue;
    if (count + group.examples.size() > most) break;
    count += group.examples.size();
    prior.groups.push_back(group);
  }
  return prior;
}

}  // namespace gantry::tune
