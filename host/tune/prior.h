// What earlier runs of other networks tell a cost model before the first trial.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "host/driver/compile.h"
#include "host/records/store.h"
#include "host/tune/cost_model.h"
#include "host/tune/prior_file.h"

namespace gantry::tune {

/// Examples from the records of works that were measured for the same target in the same precision, whatever
/// the machine, its threads and the version of the generator: a residual of a family of CPUs. `most`: as many
/// as are looked at, the newest works first; each is lowered once, and their groups are numbered from
/// `first_group` on. Works without a program in the store, and decisions that fit no longer, are left out.
/// Errors: those of the store.
std::vector<Example> examples_of(records::Store& store, const records::Setting& setting,
                                 const CompileOptions& options, size_t most, size_t first_group);

/// By what a prior for the target may be called, the one that says most of it first: "znver4", "x86_64"; of a
/// GPU "sm_90", "cuda".
std::vector<std::string> families_of(const Target& target);

/// What is made of records for others.
struct PriorTraining {
  std::string family;  ///< empty: the one family that all of them are of
  size_t most = 1000;  ///< examples, of the newest works
  std::function<void(const std::string&)> warn;
  std::function<void(double done)> progress;
};
/// Of all targets of the family and all precisions. User errors: there are none of that family, or of several
/// where none is named; there are no two trials of a work. Errors of the store.
PriorFile train_prior(records::Store& store, const PriorTraining& training);

}  // namespace gantry::tune
