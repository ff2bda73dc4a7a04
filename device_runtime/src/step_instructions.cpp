#include "device_runtime/src/step_instructions.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gantry::runtime {

Result<StepInstructions> StepInstructions::create(ThreadPool& pool, size_t steps) {
  StepInstructions counts;
  counts.steps_.resize(steps);
  counts.tracks_ = std::vector<Track>(static_cast<size_t>(pool.threads()));
  struct Opening {
    std::vector<Track>* tracks;
    std::vector<Status> failures;
  } opening{&counts.tracks_, std::vector<Status>(counts.tracks_.size())};
  const auto open = [](void* closure, int64_t thread, int64_t) -> int32_t {
    auto& all = *static_cast<Opening*>(closure);
    Result<InstructionCounter> counter = InstructionCounter::open();
    if (!counter.ok()) {
      all.failures[static_cast<size_t>(thread)] = counter.status();
      return 0;
    }
    (*all.tracks)[static_cast<size_t>(thread)].counter = std::move(*counter);
    return 0;
  };
  if (pool.run_on_each_thread(open, &opening) != 0)
    return failure(GANTRY_INVALID_ARGUMENT, "instructions are not counted from inside a kernel");
  for (const Status& status : opening.failures) GANTRY_TRY(status);
  return Result<StepInstructions>(std::move(counts));
}

void StepInstructions::begin(const GantryKernelHost& host) {
  observe(host);
  for (Track& track : tracks_) track.of_step = 0, track.lost = false;
  std::fill(steps_.begin(), steps_.end(), 0);
}

void StepInstructions::begin_step(size_t step) {
  step_ = step;
  alone_since_ = tracks_[0].read();
}

void StepInstructions::end_step() {
  tracks_[0].add_since(alone_since_);
  // All threads rest: what they have written was seen when their loops ended.
  for (Track& track : tracks_) {
    steps_[step_] += track.of_step;
    track.of_step = 0;
  }
}

Result<std::vector<uint64_t>> StepInstructions::end() {
  if (std::any_of(tracks_.begin(), tracks_.end(), [](const Track& track) { return track.lost; }))
    return failure(GANTRY_INCOMPATIBLE,
                   "the counter of instructions was given to somebody else while it counted");
  if (std::accumulate(steps_.begin(), steps_.end(), uint64_t{0}) == 0 && !steps_.empty())
    return failure(GANTRY_INCOMPATIBLE, "the counter of instructions has counted none on the cores that ran");
  return steps_;
}

uint64_t StepInstructions::Track::read() {
  uint64_t count = 0;
  lost = !counter.read(count) || lost;
  return count;
}

void StepInstructions::Track::add_since(uint64_t before) {
  const uint64_t after = read(), beside = before + counter.cost();
  if (after > beside) of_step += after - beside;
}

int32_t StepInstructions::run(size_t thread, const Loop& loop, int64_t begin, int64_t end) {
  Track& track = tracks_[thread];
  const uint64_t before = track.read();
  const int32_t error = loop.run(begin, end);
  track.add_since(before);
  return error;
}

void StepInstructions::enter_loop() {
  tracks_[0].add_since(alone_since_);
}

void StepInstructions::leave_loop() {
  alone_since_ = tracks_[0].read();
}

}  // namespace gantry::runtime
