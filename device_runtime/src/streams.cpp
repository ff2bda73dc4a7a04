#include "device_runtime/src/streams.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "device_runtime/src/cpu_info.h"

namespace gantry::runtime {
namespace {

constexpr int kMostStreams = 1024;
constexpr long kPollNanoseconds = 20'000'000;

double now_ms() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

void sleep_shortly() {
  const timespec time{0, kPollNanoseconds};
  nanosleep(&time, nullptr);
}

/// What the streams and the thread that started them tell each other.
struct Shared {
  const std::shared_ptr<const Module>& module;
  const std::function<Status(Session&)>& set_inputs;
  const StreamsOptions& options;
  double end_ms = 0;                ///< what may not be passed; 0: nothing
  std::atomic<int> warm{0};         ///< streams that wait for the start
  std::atomic<int> finished{0};     ///< streams that have ended, well or not
  std::atomic<double> start_ms{0};  ///< 0: not yet
  std::atomic<bool> stop{false};

  bool too_late(double end) const { return end_ms > 0 && end > end_ms; }
};

/// Every `interval`-th run of a stream, however many there are: once there are as many as may be kept, every
/// second one is left out, and new ones come half as often.
struct KeptRuns {
  size_t capacity = 2;
  uint64_t count = 0, interval = 1;  ///< `count`: of all runs
  std::vector<double> samples_ms, started_ms;

  void add(double sample_ms, double start_ms) {
    if (count++ % interval != 0) return;
    samples_ms.push_back(sample_ms);
    started_ms.push_back(start_ms);
    if (samples_ms.size() > capacity) thin_out_to(2 * interval);
  }
  /// `wanted`: a multiple of the interval.
  void thin_out_to(uint64_t wanted) {
    const size_t step = wanted / interval;
    for (std::vector<double>* values : {&samples_ms, &started_ms}) {
      size_t kept = 0;
      for (size_t i = 0; i < values->size(); i += step) (*values)[kept++] = (*values)[i];
      values->resize(kept);
    }
    interval = wanted;
  }
};

struct Stream {
  Shared* shared = nullptr;
  SessionOptions session;
  pthread_t thread{};
  Status status;
  KeptRuns runs;
  double end_ms = 0;
  bool cut_off = false;  ///< by the deadline
  SessionMemory memory;
};

Status warm_up(Session& session, const Shared& shared) {
  const double begin = now_ms();
  do {
    GANTRY_TRY(session.run());
  } while (!shared.stop && now_ms() - begin < shared.options.warmup_ms && !shared.too_late(now_ms()));
  return Status();
}

Status measure(Session& session, Stream& stream) {
  Shared& shared = *stream.shared;
  const double start = shared.start_ms, deadline = start + shared.options.duration_ms;
  double took = 0;
  for (double before = now_ms(); !shared.stop && before < deadline; before = stream.end_ms) {
    if (shared.too_late(before + took)) {
      stream.cut_off = true;
      break;
    }
    GANTRY_TRY(session.run());
    stream.end_ms = now_ms();
    took = stream.end_ms - before;
    stream.runs.add(stream.end_ms - before, before - start);
  }
  return Status();
}

Status run(Stream& stream) {
  Shared& shared = *stream.shared;
  auto session = Session::create(shared.module, stream.session);
  if (!session.ok()) return session.status();
  GANTRY_TRY(shared.set_inputs(**session));
  GANTRY_TRY(warm_up(**session, shared));
  stream.memory = (*session)->memory();
  ++shared.warm;
  while (!shared.stop && shared.start_ms == 0) sched_yield();
  return measure(**session, stream);
}

void* stream_main(void* argument) {
  Stream& stream = *static_cast<Stream*>(argument);
  stream.status = run(stream);
  if (!stream.status.ok()) stream.shared->stop = true;
  ++stream.shared->finished;
  return nullptr;
}

/// Options of each stream's session.
std::vector<SessionOptions> place(const StreamsOptions& options) {
  const std::vector<int>& cores = cpu_info().core_cpus;
  const auto streams = static_cast<size_t>(options.streams);
  const size_t available = options.cpus.empty() ? cores.size() : options.cpus.size();
  const size_t threads =
      options.threads > 0 ? static_cast<size_t>(options.threads) : std::max<size_t>(1, available / streams);
  const std::vector<int>& cpus = options.cpus.empty() ? cores : options.cpus;
  const bool pin = !options.cpus.empty() || streams * threads <= cores.size();
  std::vector<SessionOptions> result(streams);
  for (size_t i = 0; i < streams; ++i) {
    result[i].threads = static_cast<int>(threads);
    result[i].memory_limit = options.memory_limit;
    for (size_t j = 0; pin && j < threads; ++j)
      result[i].cpus.push_back(cpus[(i * threads + j) % cpus.size()]);
  }
  return result;
}

Status check_options(const StreamsOptions& options) {
  if (options.streams < 1 || options.streams > kMostStreams) {
    return failure(GANTRY_INVALID_ARGUMENT, "streams: there must be 1 to %d", kMostStreams);
  }
  for (double ms : {options.warmup_ms, options.duration_ms, options.deadline_ms}) {
    if (!(ms >= 0 && ms <= 1e8))
      return failure(GANTRY_INVALID_ARGUMENT, "streams: times must be 0 to 1e8 ms");
  }
  return Status();
}

/// The CPUs that the streams' threads are on: theirs, or any that this process may use.
std::vector<int> cpus_of(const std::vector<SessionOptions>& placement) {
  std::vector<int> cpus;
  for (const SessionOptions& options : placement)
    cpus.insert(cpus.end(), options.cpus.begin(), options.cpus.end());
  return cpus.empty() ? cpu_info().core_cpus : cpus;
}

/// Starts the clock when all streams are warm, and waits until all have ended. False: cancelled.
bool conduct(Shared& shared, int streams, const std::vector<int>& cpus, MachineRecord& record) {
  const StreamsOptions& options = shared.options;
  bool cancelled = false;
  std::optional<MachineWatch> watch;
  while (shared.finished < streams) {
    if (!watch && shared.warm == streams) {
      watch.emplace(
          *shared.module, [&cpus] { return cpus; }, options.probe_root);
      shared.start_ms = now_ms();
    }
    if (watch) watch->look();
    const double start = shared.start_ms;
    const double done =
        start == 0 ? 0 : std::min(1.0, (now_ms() - start) / std::max(options.duration_ms, 1e-3));
    if (options.progress && !cancelled && !options.progress(done)) {
      cancelled = true;
      shared.stop = true;
    }
    sleep_shortly();
  }
  if (watch) record = watch->finish();
  return !cancelled;
}

StreamsResult collect(std::vector<Stream>& streams, double start_ms) {
  StreamsResult result;
  result.threads = streams.front().session.threads;
  uint64_t interval = 1;
  for (const Stream& stream : streams) interval = std::max(interval, stream.runs.interval);
  for (Stream& stream : streams) {
    KeptRuns& runs = stream.runs;
    runs.thin_out_to(interval);  // so that a run of any stream counts alike
    result.samples_ms.insert(result.samples_ms.end(), runs.samples_ms.begin(), runs.samples_ms.end());
    result.started_ms.insert(result.started_ms.end(), runs.started_ms.begin(), runs.started_ms.end());
    result.runs += runs.count;
    result.complete = result.complete && !stream.cut_off;
    result.memory.workspace_bytes += stream.memory.workspace_bytes;
    result.memory.io_bytes += stream.memory.io_bytes;
    result.memory.device_workspace_bytes += stream.memory.device_workspace_bytes;
    result.memory.device_io_bytes += stream.memory.device_io_bytes;
    result.memory.weights_bytes = stream.memory.weights_bytes;
    result.memory.device_weights_bytes = stream.memory.device_weights_bytes;
    const double elapsed = stream.end_ms - start_ms;
    result.elapsed_ms = std::max(result.elapsed_ms, elapsed);
    if (elapsed > 0) result.runs_per_second += 1e3 * static_cast<double>(runs.count) / elapsed;
  }
  return result;
}

}  // namespace

Result<StreamsResult> run_streams(const std::shared_ptr<const Module>& module,
                                  const std::function<Status(Session&)>& set_inputs,
                                  const StreamsOptions& options) {
  GANTRY_TRY(check_options(options));
  Shared shared{module, set_inputs, options};
  if (options.deadline_ms > 0) shared.end_ms = now_ms() + options.deadline_ms;
  std::vector<Stream> streams(static_cast<size_t>(options.streams));
  const std::vector<SessionOptions> placement = place(options);
  int started = 0;
  Status status;
  for (size_t i = 0; i < streams.size() && status.ok(); ++i) {
    streams[i].shared = &shared;
    streams[i].session = placement[i];
    streams[i].runs.capacity = std::max<size_t>(2, kMostKeptRuns / streams.size());
    const int error = pthread_create(&streams[i].thread, nullptr, stream_main, &streams[i]);
    if (error == 0) {
      ++started;
    } else {
      shared.stop = true;
      status =
          failure(GANTRY_OUT_OF_MEMORY, "the system refuses a thread for stream %zu: use fewer streams", i);
    }
  }
  MachineRecord record;
  const bool whole = conduct(shared, started, cpus_of(placement), record);
  for (int i = 0; i < started; ++i) pthread_join(streams[static_cast<size_t>(i)].thread, nullptr);
  GANTRY_TRY(status);
  for (const Stream& stream : streams) GANTRY_TRY(stream.status);
  if (!whole) return failure(GANTRY_KERNEL_FAILED, "the benchmark was cancelled");
  for (const Stream& stream : streams) {
    if (stream.runs.count == 0 && stream.cut_off) {
      return failure(GANTRY_KERNEL_FAILED, "the benchmark's deadline passed while its streams warmed up");
    }
  }
  StreamsResult result = collect(streams, shared.start_ms);
  static_cast<MachineRecord&>(result) = std::move(record);
  return result;
}

}  // namespace gantry::runtime
