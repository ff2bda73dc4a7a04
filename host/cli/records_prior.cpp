#include "host/cli/records_prior.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "host/cli/json_values.h"
#include "host/cli/prior_files.h"
#include "host/cli/progress.h"
#include "host/cli/records_use.h"
#include "host/cli/terminal.h"
#include "host/support/error.h"
#include "host/support/output_file.h"
#include "host/tune/prior.h"

namespace gantry::cli {

int train_prior(const RecordsOptions& options, const Invocation& invocation) {
  if (options.json) invocation.outputs->reports("--json");
  if (options.place.find("://") == std::string::npos) invocation.outputs->reads(options.place, "the records");
  if (!options.from.empty() && options.from != options.output)
    invocation.outputs->reads(options.from, "the prior");
  invocation.outputs->writes(options.output, FileKind::kPrior, "-o", options.force);
  std::optional<FoundPrior> older;
  if (!options.from.empty()) older = read_prior(options.from);
  const auto store = read_records(options.place, invocation);
  Progress progress(invocation.verbosity());
  tune::PriorTraining training;
  training.family = options.family;
  if (training.family.empty() && older) training.family = older->prior.family;
  training.most = options.examples;
  training.warn = [&](const std::string& message) { invocation.warn(visible_line(message)); };
  training.progress = [&](double done) { progress.update("lowering what was measured", done); };
  tune::PriorFile prior = tune::train_prior(*store, training);
  progress.clear();
  if (older) {
    if (older->prior.family != prior.family)
      user_error("{}: is of {}, not of {}", options.from, older->prior.family, prior.family);
    prior = tune::merged(std::move(prior), older->prior, options.examples);
  }
  write_file(options.output, tune::prior_text(prior));
  if (options.json) {
    print_out(document_text(nlohmann::ordered_json{{"prior", options.output},
                                                   {"family", prior.family},
                                                   {"works", prior.groups.size()},
                                                   {"examples", prior.examples()}}));
  } else if (!invocation.quiet) {
    print_about(*invocation.outputs, fmt::format("{}: {} trials of {} works, for {}\n", options.output,
                                                 prior.examples(), prior.groups.size(), prior.family));
  }
  return 0;
}

}  // namespace gantry::cli
