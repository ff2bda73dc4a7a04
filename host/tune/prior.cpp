#include "host/tune/prior.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "host/codegen/find_target.h"
#include "host/machine/cpu_family.h"
#include "host/machine/gpu_family.h"
#include "host/records/work_program.h"
#include "host/support/error.h"
#include "host/tune/lone_look.h"
#include "host/tune/notebook.h"

namespace gantry::tune {
namespace {

/// By work and setting: what was measured together, oldest first; the newest of them first.
std::vector<std::vector<records::Record>> measured_works(records::Store& store, records::Filter filter) {
  filter.outcome = records::Outcome::kMeasured;
  std::map<records::Key, std::vector<records::Record>> by_key;
  store.each(filter, [&](const records::Record& record) {
    if (record.op != records::kNetworkOp) by_key[record.key].push_back(record);
    return true;
  });
  std::vector<std::vector<records::Record>> works;
  for (auto& [key, records] : by_key) works.push_back(std::move(records));
  std::ranges::sort(works, std::ranges::greater(), [](const auto& work) { return work.back().id; });
  return works;
}

/// Of a work, at most so many decisions of it; none where the store has no program of it, or an older one.
/// `looks`: how many decisions were looked at.
std::vector<Example> examples_of_work(records::Store& store, const std::vector<records::Record>& work,
                                      const CompileOptions& options, size_t most, size_t& looks) {
  const records::Key& key = work.front().key;
  const auto text = store.program_of(key.work);
  if (!text) return {};
  std::vector<Remembered> known = costs_of(work, work.front().baseline);
  std::erase_if(known, [](const Remembered& one) { return !one.cost; });
  known.resize(std::min(known.size(), most));
  try {
    const Graph graph = records::graph_of({key.work, *text}, 0);
    const Node& node = *graph.main.nodes().front();
    looks += known.size();
    std::vector<Example> examples;
    for (const Remembered& one : known) {
      const Look look = look_at_lone(graph.main, node, one.decision, options, key.setting.threads);
      if (!look.misfit) examples.push_back({0, {look.features, look.predicted}, *one.cost});
    }
    return examples;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    return {};  // a program of another version
  }
}

/// Of the targets that this gantry knows; others are warned of.
std::vector<std::vector<records::Record>> works_of_family(std::vector<std::vector<records::Record>> works,
                                                          PriorTraining& training) {
  std::map<std::string, std::vector<std::string>> families;  // by target
  std::set<std::string> first;
  for (const auto& work : works) {
    const std::string& name = work.front().key.setting.target;
    const auto [known, is_new] = families.try_emplace(name);
    if (!is_new) continue;
    try {
      known->second = families_of(find_target(name));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUser) throw;
      if (training.warn) training.warn(fmt::format("records of {} are left out: {}", name, error.what()));
      continue;
    }
    first.insert(known->second.front());
  }
  if (training.family.empty()) {
    if (first.size() > 1)
      user_error("there are records of {}: say of which by --family", fmt::join(first, ", "));
    if (!first.empty()) training.family = *first.begin();
  }
  std::erase_if(works, [&](const auto& work) {
    const std::vector<std::string>& own = families.at(work.front().key.setting.target);
    return std::ranges::find(own, training.family) == own.end();
  });
  if (works.empty() && !first.empty())
    user_error("there are no records of the family {}: they are of {}", training.family,
               fmt::join(first, ", "));
  return works;
}

/// None for a precision that there is not, say: records may come from anywhere.
std::optional<CompileOptions> options_of(const records::Setting& setting) {
  try {
    CompileOptions options;
    options.targets = {find_target(setting.target)};
    options.precision = find_precision(setting.precision);
    options.optimize = find_optimize(setting.optimize);
    return options;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    return std::nullopt;
  }
}

}  // namespace

std::vector<Example> examples_of(records::Store& store, const records::Setting& setting,
                                 const CompileOptions& options, size_t most, size_t first_group) {
  records::Filter filter;
  filter.target = setting.target;
  filter.precision = setting.precision;
  std::vector<Example> examples;
  size_t looks = 0, group = first_group;
  for (const std::vector<records::Record>& work : measured_works(store, filter)) {
    if (looks >= most) break;
    for (Example& example : examples_of_work(store, work, options, most - looks, looks)) {
      example.group = group;
      examples.push_back(std::move(example));
    }
    ++group;
  }
  return examples;
}

std::vector<std::string> families_of(const Target& target) {
  if (target.for_gpu()) return {target.gpu_arch, std::string(gpu_family_of(target).name)};
  return {target.cpu, std::string(family_of(target).name)};
}

PriorFile train_prior(records::Store& store, const PriorTraining& given) {
  PriorTraining training = given;
  const std::vector<std::vector<records::Record>> works =
      works_of_family(measured_works(store, {}), training);
  if (works.empty())
    user_error("{}: has no measured kernels{}", store.place(),
               training.family.empty() ? "" : " of the family " + training.family);
  PriorFile prior{.family = training.family, .groups = {}};
  size_t looks = 0;
  for (const std::vector<records::Record>& work : works) {
    if (looks >= training.most) break;
    const records::Record& one = work.front();
    const std::optional<CompileOptions> options = options_of(one.key.setting);
    if (!options) continue;
    std::vector<Example> examples = examples_of_work(store, work, *options, training.most - looks, looks);
    if (training.progress) training.progress(static_cast<double>(looks) / static_cast<double>(training.most));
    // One alone is compared with nothing.
    if (examples.size() > 1)
      prior.groups.push_back({one.key.setting.precision, one.op, one.key.work, std::move(examples)});
  }
  if (prior.groups.empty())
    user_error("{}: has of no work two trials that can be lowered here, with the work's program",
               store.place());
  return prior;
}

}  // namespace gantry::tune
