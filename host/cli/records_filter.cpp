#include "host/cli/records_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "host/cli/terminal.h"
#include "host/codegen/find_target.h"
#include "host/machine/precision.h"
#include "host/ops/op.h"
#include "host/records/generator.h"
#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry::cli {
namespace {

using records::Filter;
using records::Store;

/// "2026-11-27" is its first second.
std::string date_of(const std::string& option, const std::string& text) {
  constexpr std::string_view kDay = "2026-11-27", kSecond = "2026-11-27T08:05:00Z";
  constexpr std::string_view kMidnight = "T00:00:00Z";
  if (text.empty() || records::is_date(text)) return text;
  if (std::string midnight = text + std::string(kMidnight); records::is_date(midnight)) return midnight;
  user_error("{} {}: is no date; write {} or {}", option, text, kDay, kSecond);
}

std::vector<std::string> known_ops() {
  std::vector<std::string> names = op_set().names();
  names.emplace_back(records::kNetworkOp);
  return names;
}

bool is_among(const std::string& word, const std::vector<std::string>& names) {
  return std::ranges::find(names, word) != names.end();
}

void check_op(Store& store, const std::string& op) {
  const std::vector<std::string> names = known_ops();
  if (op.empty() || is_among(op, names) || store.count({.op = op}) > 0) return;
  user_error("--op {}: {} has no record of it, and there is no such op{}", op, store.place(),
             did_you_mean(op, names));
}

/// What `find` knows by that word. User errors for what it does not know.
template <typename Find>
auto found(const Store& store, const char* option, const std::string& word, const Find& find) {
  try {
    return find(word);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    user_error("{} {}: {} has no record of it: {}", option, word, store.place(), error.what());
  }
}

void check_precision(Store& store, const std::string& precision) {
  if (precision.empty() || store.count({.precision = precision}) > 0) return;
  if (found(store, "--precision", precision, find_precision) == Precision::kAuto)
    user_error("--precision {}: {} has no record of it; in records it is called as what it stood for", precision,
               store.place());
}

void check_target(Store& store, const std::string& target) {
  if (target.empty() || store.count({.target = target}) > 0) return;
  const std::string name = found(store, "--target", target, find_target).name;
  if (name != target)
    user_error("--target {}: {} has no record of it; in records it is called {}", target, store.place(),
               name);
}

/// "A, B and 7 more"
std::string listed(const std::vector<std::string>& words) {
  constexpr size_t kMost = 12;
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i == kMost) return fmt::format("{} and {} more", text, words.size() - i);
    text += (i == 0 ? "" : ", ") + visible_line(words[i]);
  }
  return text;
}

/// What processors call themselves gantry does not know: the store does.
void check_machine(Store& store, const std::string& machine) {
  if (machine.empty() || store.count({.machine = machine}) > 0) return;
  const std::vector<std::string> machines = store.all_of_column("machine");
  if (machines.empty()) return;  // a store without records is none that lacks this machine's
  user_error("--machine {}: {} has no record of it; its records are of: {}", machine, store.place(),
             listed(machines));
}

}  // namespace

Filter filter_of(const RecordsOptions& options) {
  Filter filter = options.filter;
  if (filter.work.find_first_not_of("0123456789abcdef") != std::string::npos || filter.work.size() > 64)
    user_error("--work {}: is no beginning of a digest of 64 hexadecimal digits", filter.work);
  filter.since = date_of("--since", options.since);
  filter.before = date_of("--before", options.before);
  filter.ids = options.ids;
  if (!options.outcome.empty()) filter.outcome = records::find_outcome(options.outcome);
  if (options.this_generator) filter.generator = records::generator_version();
  if (options.other_generators) filter.other_generator = records::generator_version();
  return filter;
}

void check_words(Store& store, const Filter& filter) {
  check_op(store, filter.op);
  check_target(store, filter.target);
  check_precision(store, filter.precision);
  check_machine(store, filter.machine);
}

std::string no_such_records(Store& store, const Filter& filter) {
  std::string text = store.place() + ": has no such records";
  if (store.count({}) == 0) return text + ": it has none at all";
  const auto say = [&](const char* option, const std::string& word, const char* column, const Filter& alone) {
    if (alone == Filter() || store.count(alone) > 0) return;
    text += fmt::format("; none is of {} {}, but of {}", option, word, listed(store.all_of_column(column)));
  };
  say("--op", filter.op, "op", {.op = filter.op});
  say("--target", filter.target, "target", {.target = filter.target});
  say("--precision", filter.precision, "precision", {.precision = filter.precision});
  say("--threads", std::to_string(filter.threads), "threads", {.threads = filter.threads});
  if (filter.outcome)
    say("--outcome", std::string(records::name_of(*filter.outcome)), "outcome", {.outcome = filter.outcome});
  return text;
}

}  // namespace gantry::cli
