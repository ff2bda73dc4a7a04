// What the subcommands of `gantry records` do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/cli/invocation.h"
#include "host/cli/records_verify.h"
#include "host/records/store.h"

namespace gantry::cli {

struct RecordsOptions {
  std::string place, file, output, outcome, since, before;
  std::string family, from;  ///< of a prior that is made, and of which it is made, too
  size_t examples = 1000;    ///< that it has at most
  std::vector<int64_t> ids;
  records::Filter filter;
  bool this_generator = false, other_generators = false;
  VerifyOptions verify;
  bool best = false, json = false, force = false, dry_run = false;
};

/// Each returns the exit code. Errors: those of the store, of the filters, and of the machine that verifies.
int list_records(const RecordsOptions& options, const Invocation& invocation);
int show_records(const RecordsOptions& options, const Invocation& invocation);
int export_records(const RecordsOptions& options, const Invocation& invocation);
int import_records(const RecordsOptions& options, const Invocation& invocation);
int prune_records(const RecordsOptions& options, const Invocation& invocation);
int verify_records(const RecordsOptions& options, const Invocation& invocation);

}  // namespace gantry::cli
