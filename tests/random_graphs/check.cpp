#include "tests/random_graphs/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "host/codegen/find_target.h"
#include "host/driver/pipeline.h"
#include "host/machine/target.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/support/error.h"
#include "tests/random_graphs/passes.h"
#include "tests/support/compiled_model.h"
#include "tests/support/interpreted.h"

namespace gantry::random_graphs {
namespace {

const OpTable& table() {
  static const FusedOpTable ops(op_set());
  return ops;
}

std::string printed(const Graph& graph) {
  return print(graph, table());
}

/// What a f32 product's terms lose on that target.
double product_unit_of(const std::string& target) {
  switch (with_precision(find_target(target), Precision::kAuto).precision) {
    case Precision::kTf32:
    case Precision::kFp16:
      return 0x1p-11;
    case Precision::kBf16:
      return 0x1p-8;
    default:
      return kFormUnit;
  }
}

}  // namespace

std::string Check::name() const {
  if (passes.empty()) return fmt::format("compiled for {} with --opt {}", target, opt_level);
  return fmt::format("{}", fmt::join(passes, ", "));
}

std::string Statistics::table() const {
  std::string text = fmt::format("{:<32} {:>9} {:>9} {:>7}\n", "pass", "ran", "changed", "share");
  for (const auto& [name, count] : passes) {
    const double share = count.ran > 0 ? 100.0 * double(count.changed) / double(count.ran) : 0;
    text += fmt::format("{:<32} {:>9} {:>9} {:>6.1f}%\n", name, count.ran, count.changed, share);
  }
  return text;
}

Tester::Tester(const Case& test) : test_(test) {
  const Graph graph = bound(test.graph, test.symbols);
  inputs_ = inputs_of(test, graph);
  expected_ = reference(graph, inputs_, test.seed, kFormUnit);
}

std::string Tester::difference_of(const Graph& graph, const std::vector<Elements>& expected) const {
  const Graph numbers = bound(graph, test_.symbols);
  return difference(testing::interpret_function(numbers.main, inputs_), expected);
}

std::optional<Failure> Tester::run_passes(const Check& check, Statistics& statistics) const {
  Graph graph = clone_graph(test_.graph);
  std::string before = printed(graph);
  for (const std::string& name : check.passes) {
    try {
      const bool is_last = &name == &check.passes.back();
      tested_pass(name).run(graph, test_.seed, is_last ? check.most_rewrites : kAllRewrites);
      verify(graph, table(), name);
    } catch (const std::exception& error) {
      return Failure{check, name, error.what(), 0};
    }
    std::string after = printed(graph);
    const bool changed = after != before;
    if (check.counted && &name == &check.passes.back()) {
      PassCount& count = statistics.passes[name];
      ++count.ran;
      count.changed += changed ? 1 : 0;
    }
    if (!changed) continue;
    before = std::move(after);
    std::string what;
    try {
      what = difference_of(graph, expected_);
    } catch (const std::exception& error) {
      what = error.what();
    }
    if (!what.empty()) return Failure{check, name, what, 0};
  }
  return std::nullopt;
}

std::string Tester::first_wrong_step(const Check& check, const std::vector<Elements>& expected) const {
  std::string first;
  CompileOptions options;
  options.opt_level = check.opt_level;
  options.observer.graph_pass = [&](const std::string& step, const Graph& graph) {
    if (first.empty() && !difference_of(graph, expected).empty()) first = step;
  };
  Graph graph = clone_graph(test_.graph);
  try {
    run_graph_passes(graph, with_precision(find_target(check.target), Precision::kAuto), options);
  } catch (const std::exception&) {
    // The compiler's own message tells more; or a form is one that only kernels compute.
  }
  return first.empty() ? "compiling" : first;
}

std::optional<Failure> Tester::run_compiled(const Check& check) const {
  std::string what;
  std::vector<Elements> expected = expected_;
  try {
    testing::LocalModel model(testing::compile_to_bytes(test_.graph, {check.target, check.opt_level, 1}), 1,
                              testing::device_for(check.target));
    const double unit = product_unit_of(check.target);
    if (unit != kFormUnit) expected = reference(bound(test_.graph, test_.symbols), inputs_, test_.seed, unit);
    what = difference(model.run(inputs_), expected);
  } catch (const std::exception& error) {
    what = error.what();
  }
  if (what.empty()) return std::nullopt;
  return Failure{check, first_wrong_step(check, expected), what, 0};
}

std::optional<Failure> Tester::run(const Check& check, Statistics& statistics) const {
  ++statistics.checks;
  if (!check.passes.empty()) return run_passes(check, statistics);
  ++statistics.compiled;
  return run_compiled(check);
}

std::vector<Check> pass_checks(const Case& test, int orders) {
  std::vector<Check> checks;
  for (const TestedPass& pass : list_of_passes()) {
    Check check{pass.after, -1, ""};
    check.counted = true;
    check.passes.push_back(pass.name);
    checks.push_back(check);
  }
  for (int i = 0; i < orders; ++i)
    checks.push_back({random_order(test.seed + (static_cast<uint64_t>(i) << 32)), -1, ""});
  return checks;
}

std::optional<Failure> first_failure(const Case& test, const std::vector<Check>& checks,
                                     Statistics& statistics) {
  ++statistics.graphs;
  statistics.nodes += static_cast<int64_t>(test.graph.main.nodes().size());
  try {
    const Tester tester(test);
    statistics.determined += tester.determined();
    for (const Check& check : checks) {
      if (auto failure = tester.run(check, statistics)) return failure;
    }
  } catch (const std::exception& error) {
    return Failure{checks.empty() ? Check{} : checks.front(), "evaluating it as it is", error.what(), 0};
  }
  return std::nullopt;
}

std::string report(const Case& test, const Failure& failure) {
  std::string symbols;
  for (const auto& [name, value] : test.symbols)
    symbols += fmt::format("{}{} = {}", symbols.empty() ? "" : ", ", name, value);
  return fmt::format("seed {}{}{}\nfails: {}\nfirst wrong after: {}{}\n{}\n{}", test.seed,
                     test.special ? ", data with NaN and infinities" : "",
                     symbols.empty() ? "" : ", " + symbols, failure.check.name(), failure.first,
                     failure.rewrite > 0 ? fmt::format(", its rewrite {}", failure.rewrite) : "", failure.what,
                     text_of(test.graph));
}

}  // namespace gantry::random_graphs
