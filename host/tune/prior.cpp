#include "host/tune/prior.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "host/records/work_program.h"
#include "host/support/error.h"
#include "host/tune/lone_look.h"
#include "host/tune/notebook.h"

namespace gantry::tune {
namespace {

/// By work and setting: what was measured together, oldest first.
std::vector<std::vector<records::Record>> measured_works(records::Store& store,
                                                         const records::Setting& setting) {
  records::Filter filter;
  filter.target = setting.target;
  filter.precision = setting.precision;
  filter.outcome = records::Outcome::kMeasured;
  std::map<records::Key, std::vector<records::Record>> by_key;
  store.each(filter, [&](const records::Record& record) {
    by_key[record.key].push_back(record);
    return true;
  });
  std::vector<std::vector<records::Record>> works;
  for (auto& [key, records] : by_key) works.push_back(std::move(records));
  std::ranges::sort(works, std::ranges::greater(), [](const auto& work) { return work.back().id; });
  return works;
}

}  // namespace

std::vector<Example> examples_of(records::Store& store, const records::Setting& setting,
                                 const CompileOptions& options, size_t most, size_t first_group) {
  std::vector<Example> examples;
  size_t looks = 0, group = first_group;
  for (const std::vector<records::Record>& work : measured_works(store, setting)) {
    if (looks >= most) break;
    const std::string& digest = work.front().key.work;
    const auto text = store.program_of(digest);
    if (!text) continue;
    try {
      const Graph graph = records::graph_of({digest, *text}, 0);
      const Node& node = *graph.main.nodes().front();
      for (const Remembered& one : costs_of(work, work.front().baseline)) {
        if (!one.cost || looks++ >= most) continue;
        const Look look = look_at_lone(graph.main, node, one.decision, options);
        if (!look.misfit) examples.push_back({group, {look.features, look.predicted}, *one.cost});
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUser) throw;
      continue;  // a program of another version
    }
    ++group;
  }
  return examples;
}

}  // namespace gantry::tune
