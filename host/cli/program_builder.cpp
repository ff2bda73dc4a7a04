#include "host/cli/program_builder.h"

#include <exception>
#include <variant>

#include "host/cli/model_source.h"
#include "host/driver/decision_file.h"
#include "host/support/error.h"
#include "host/support/shortage.h"
#include "host/targets/common/knob_misfit.h"

namespace gantry::cli {
namespace {

using records::Outcome;

std::string key_of(const tune::Choices& choices) {
  std::string key;
  for (const std::string& line : network_lines({choices.combined, choices.apart})) key += line + "\n";
  for (const Decision& decision : choices) key += to_string(decision) + "\n";
  return key;
}

}  // namespace

TunedProgramPtr RecentPrograms::find(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  for (auto known = programs_.begin(); known != programs_.end(); ++known) {
    if (known->first != key) continue;
    programs_.splice(programs_.begin(), programs_, known);
    return programs_.front().second;
  }
  return nullptr;
}

void RecentPrograms::put(const std::string& key, TunedProgramPtr program) {
  const std::scoped_lock lock(mutex_);
  programs_.emplace_front(key, std::move(program));
  if (programs_.size() > most_) programs_.pop_back();
}

TunedProgramPtr ProgramBuilder::program_of(const tune::Choices& choices) {
  const std::string key = key_of(choices);
  if (TunedProgramPtr known = kept(key)) return known;
  TunedProgramPtr program = build_here(choices);
  asked_.put(key, program);
  return program;
}

Built ProgramBuilder::built_of(const tune::Choices& choices) {
  const std::string key = key_of(choices);
  if (TunedProgramPtr known = kept(key)) return known;
  Built built = built_here(choices);
  if (const auto* program = std::get_if<TunedProgramPtr>(&built)) asked_.put(key, *program);
  return built;
}

TunedProgramPtr ProgramBuilder::kept(const std::string& key) {
  if (TunedProgramPtr known = asked_.find(key)) return known;
  TunedProgramPtr program = ahead_.find(key);
  if (program) asked_.put(key, program);
  return program;
}

TunedProgramPtr ProgramBuilder::build_here(const tune::Choices& choices) {
  tune::BuiltNetwork built = network_.build(choices);
  {
    const std::scoped_lock lock(mutex_);
    ++here_;
  }
  return std::make_shared<const TunedProgram>(
      TunedProgram{module_bytes(built.module), std::move(built.steps)});
}

Built ProgramBuilder::built_here(const tune::Choices& choices) {
  try {
    return build_here(choices);
  } catch (const KnobMisfit& error) {
    return tune::Failure{Outcome::kMisfit, error.what()};
  } catch (const Shortage&) {
    throw;  // of this machine, whatever the choices are
  } catch (const Error& error) {
    expect_untuned_builds();
    return tune::Failure{Outcome::kBuildFailed, error.what()};
  }
}

/// Kernels may come from the cache; an image is linked anew each time, and code of GPUs assembled.
void ProgramBuilder::expect_untuned_builds() const {
  (void)network_.build(network_.untuned_choices());
}

void ProgramBuilder::use(std::unique_ptr<TuneMachines> hosts, const tune::Choices& untuned) {
  hosts_ = std::make_unique<CompileHosts>(network_, untuned, program_of(untuned), queue_, std::move(hosts));
}

BuildCounts ProgramBuilder::counts() const {
  BuildCounts counts;
  if (hosts_) counts.hosts = hosts_->counts();
  const std::scoped_lock lock(mutex_);
  counts.here = here_;
  return counts;
}

BuildsAhead::BuildsAhead(ProgramBuilder& builder, std::vector<tune::Choices> choices, bool ahead)
    : builder_(builder), choices_(std::move(choices)) {
  for (const tune::Choices& some : choices_) {
    const std::string key = key_of(some);
    TunedProgramPtr known = builder_.asked_.find(key);
    if (!known) known = builder_.ahead_.find(key);
    if (!known) {
      programs_.push_back(builder_.queue_.add(some));
      continue;
    }
    std::promise<Built> done;
    done.set_value(std::move(known));
    programs_.push_back(done.get_future().share());
  }
  if (ahead) {
    thread_ = std::thread([this] { build(); });
  } else {
    build();
  }
}

BuildsAhead::~BuildsAhead() {
  builder_.queue_.clear();
  if (thread_.joinable()) thread_.join();
}

void BuildsAhead::build() {
  while (const BuildJobPtr job = builder_.queue_.take_here()) {
    try {
      builder_.queue_.finish(job, builder_.built_here(job->choices));
    } catch (...) {
      builder_.queue_.fail(job, std::current_exception());
    }
  }
}

Built BuildsAhead::get(size_t i) const {
  const std::shared_future<Built> program = programs_[i];
  Built built = program.get();
  if (const auto* ready = std::get_if<TunedProgramPtr>(&built)) {
    const std::string key = key_of(choices_[i]);
    if (!builder_.ahead_.find(key)) builder_.ahead_.put(key, *ready);
  }
  return built;
}

}  // namespace gantry::cli
