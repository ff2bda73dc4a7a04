// Random graphs through all passes and through the compiler, as many as one has time for:
//   random_graphs --count 20000 --seed 1 --compiled 0.02
// Prints every graph that fails, made small, and how often each pass changed something. The exit code is 1
// where one failed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "host/support/error.h"
#include "tests/random_graphs/hunt.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {
namespace {

struct Request {
  uint64_t seed = 1;
  int64_t count = 1000;
  double minutes = 0;
  bool show = false;
  HuntOptions hunt;
};

void print_summary(const Statistics& s, int64_t failures, double seconds) {
  const auto graphs = static_cast<double>(std::max<int64_t>(s.graphs, 1));
  fmt::print("{}", s.table());
  fmt::print(
      "{} graphs of {:.1f} nodes, {} checks, {} of them compiled; {:.1f}% of the results determined; {} "
      "failed; "
      "{:.1f} s a thousand\n",
      s.graphs, static_cast<double>(s.nodes) / graphs, s.checks, s.compiled, 100 * s.determined / graphs,
      failures, seconds / graphs * 1000);
}

int run(const Request& request) {
  if (request.show) {
    const Case test = random_case(request.seed);
    fmt::print("{}", text_of(test.graph));
    for (const auto& [name, value] : test.symbols) fmt::print("{} = {}\n", name, value);
    return 0;
  }
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Statistics statistics;
  int64_t failures = 0;
  for (int64_t i = 0; i < request.count; ++i) {
    if (request.minutes > 0 && seconds() > 60 * request.minutes) break;
    const uint64_t seed = request.seed + static_cast<uint64_t>(i);
    if (const auto found = hunt(seed, request.hunt, statistics)) {
      ++failures;
      fmt::print("--- {} of {}\n{}\n", failures, seed, *found);
      std::fflush(stdout);
    }
  }
  print_summary(statistics, failures, seconds());
  return failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace gantry::random_graphs

int main(int argc, char** argv) {
  gantry::random_graphs::Request request;
  CLI::App app(
      "Random graphs through all passes and the compiler, compared with what they compute as they are.");
  app.add_option("--count", request.count, "Graphs")->capture_default_str();
  app.add_option("--seed", request.seed, "Of the first one; the others' follow")->capture_default_str();
  app.add_option("--minutes", request.minutes, "Stops after so many; 0: never");
  app.add_option("--orders", request.hunt.orders, "Random orders of passes, a graph")->capture_default_str();
  app.add_option("--compiled", request.hunt.compiled_share,
                 "Share of the graphs that are compiled and run too");
  app.add_option("--opt-levels", request.hunt.opt_levels, "Of these, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--targets", request.hunt.targets,
                 "For these, which this machine runs: native, cuda-emulated, …")
      ->delimiter(',')
      ->capture_default_str();
  app.add_flag("--show", request.show, "Only prints the graph of --seed");
  CLI11_PARSE(app, argc, argv);
  try {
    return gantry::random_graphs::run(request);
  } catch (const gantry::Error& error) {
    fmt::print(stderr, "random_graphs: {}\n", error.what());
    return static_cast<int>(error.kind());
  }
}
