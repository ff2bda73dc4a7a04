// What was measured of a family of CPUs, as numbers that a cost model learns from: a file that is shipped, or
// made of records.
//
//   {"schema": "gantry-prior", "version": 1, "family": "znver4", "features": ["predicted", "form.direct", …],
//    "groups": [{"precision": "fp32", "op": "nn.conv", "work": "3f…", "examples": [[1.03, 81000, 16.3, 1, …],
//    …]}, …]}
//
// An example is a cost, what the analytic models predict (null: nothing), and a number a feature (null:
// missing), each to six digits. Those of a group are of one work on one machine. Features are known by their
// names (host/tune/candidate_features.h): what a gantry does not know is left out, what a file does not have
// is missing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "host/tune/cost_model.h"

namespace gantry::tune {

struct PriorGroup {
  std::string precision, op;
  std::string work;               ///< records::Key::work
  std::vector<Example> examples;  ///< whose own numbers of groups do not count
};

struct PriorFile {
  std::string family;
  std::vector<PriorGroup> groups;

  size_t examples() const;
};

std::string prior_text(const PriorFile& prior);
/// User errors name `file` and what is wrong there; it may come from anywhere.
PriorFile parse_prior(std::string_view text, const std::string& file);

/// Those of a precision, in groups that are numbered from `first_group` on.
std::vector<Example> examples_of(const PriorFile& prior, std::string_view precision, size_t first_group);

/// The groups of one, and those of another that are of other works, as long as both have no more than `most`
/// examples.
PriorFile merged(PriorFile prior, const PriorFile& other, size_t most);

}  // namespace gantry::tune
