#include "host/cli/measure_options.h"

#include <CLI/CLI.hpp>

#include "host/cli/between.h"
#include "host/cli/quantities.h"
#include "rpc/protocol/message.h"

namespace gantry::cli {

void add_measure_options(CLI::App& command, MeasureOptions& options) {
  constexpr uint32_t kMost = 1'000'000;
  constexpr uint32_t kMostProcesses = 1000;
  constexpr double kLongestMs = 3.6e6;
  add_duration(command, "--duration", options.duration_s,
               "Time to measure at most, unless --processes, --warmup or --repeat ask for more; default 60s");
  add_share(command, "--precision-goal", options.precision_goal,
            "Half the width of the median's interval at which measuring ends; default 1%");
  command
      .add_option("--processes", options.processes, "Exactly so many processes; default: as the goal takes")
      ->type_name("N")
      ->check(between(1u, kMostProcesses));
  command
      .add_option("--warmup", options.warmup,
                  "Exactly so many runs before the first sample; default: until steady")
      ->type_name("N")
      ->check(between(0u, kMost));
  command.add_option("--repeat", options.repeat, "Exactly so many samples a process; default: by time")
      ->type_name("N")
      ->check(between(1u, kMost));
  command
      .add_option("--number", options.number, "Runs a sample; default 1, or as the clock's resolution asks")
      ->type_name("N")
      ->check(between(1u, kMost));
  command.add_option("--min-repeat-ms", options.min_repeat_ms, "More runs a sample until it takes this long")
      ->type_name("MS")
      ->check(between(0.0, kLongestMs));
  command.add_option("--cooldown-ms", options.cooldown_ms, "Pause before every sample")
      ->type_name("MS")
      ->check(between(0.0, kLongestMs));
  command.add_flag("--cold,--flush-cache", options.cold, "Empty the caches of every core before every run");
  CLI::Option* streams = command
                             .add_option("--streams", options.streams,
                                         "Throughput: so many sessions at once, the cores shared evenly")
                             ->type_name("N")
                             ->check(between(1u, rpc::kMaxStreams));
  add_turn_options(command, options.turns);
  for (const char* other : {"--repeat", "--number", "--min-repeat-ms", "--cooldown-ms", "--cold"}) {
    streams->excludes(command.get_option(other));
  }
}

}  // namespace gantry::cli
