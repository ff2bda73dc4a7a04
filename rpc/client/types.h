/// What a client exchanges with a board: plain data, no protocol types. Control characters in a board's texts
/// are visible here already (rpc/visible_text.h), but in names of tensors, which are the model's own.
#ifndef GANTRY_RPC_CLIENT_TYPES_H
#define GANTRY_RPC_CLIENT_TYPES_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rpc/protocol/lease_priority.h"
#include "rpc/security/key.h"

namespace gantry::rpc {

/// Element type, numbered as DLPack does (code 0 int, 1 uint, 2 float, 4 bfloat, 6 bool; lanes 1).
struct ElementType {
  std::uint8_t code = 2;
  std::uint8_t bits = 32;
  bool operator==(const ElementType&) const = default;
};

struct ConnectOptions {
  std::string address;        ///< "HOST:PORT", "[IPv6]:PORT" or "HOST" (port 7453)
  std::string label;          ///< what the user calls the board, for errors; empty: its address
  std::optional<PskKey> key;  ///< none: unencrypted, which only a board on loopback accepts
  std::string client_name = "gantry";
  std::chrono::milliseconds connect_timeout{5000};  ///< name, TCP, TLS and version exchange together
  std::chrono::milliseconds request_timeout{
      30000};  ///< short requests; long ones have deadlines of their own
};

/// A GPU as its driver describes it.
struct GpuInfo {
  std::string name;
  std::uint32_t compute_capability = 0;  ///< 10 * major + minor: 86
  std::uint32_t multiprocessors = 0;
  std::uint32_t clock_mhz = 0;  ///< the highest
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_free_bytes = 0;
  std::uint64_t l2_bytes = 0;
  std::uint32_t cuda_version = 0;  ///< that the driver supports: 1000 * major + 10 * minor
  std::string driver;              ///< "550.54.14"; "" where not shown
};

struct BoardInfo {
  std::string version;  ///< of gantry-device
  std::string hostname;
  std::string system;                 ///< "Linux 6.1.0 aarch64"
  std::string architecture;           ///< "x86_64", "aarch64"
  std::string cpu;                    ///< as the board calls it: "AMD EPYC …", "Cortex-A72"
  std::string llvm_cpu;               ///< LLVM's name of the core where known ("cortex-a72"), else ""
  std::vector<std::string> features;  ///< CPU features by LLVM's names: "avx2", "neon", "dotprod", …
  std::uint32_t logical_cpus = 0;
  std::uint32_t physical_cores = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::uint64_t session_memory_bytes = 0;  ///< what one session may use
  std::uint32_t deadline_ms = 0;           ///< the longest that one request may run
  std::vector<GpuInfo> gpus;               ///< where they were asked for
  std::string gpu_problem;                 ///< why there are none
};

struct TensorDescription {
  std::string name;
  ElementType type;
  std::vector<std::int64_t> shape;  ///< -1: symbolic
};

/// Dense row-major bytes.
struct Tensor {
  ElementType type;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

/// done and total bytes that travel, total 0 if the board holds everything already.
using UploadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;
struct UploadReport {
  std::uint64_t module_bytes = 0;
  std::uint64_t sent_bytes = 0;  ///< of segments that the board did not hold
  std::uint32_t segments = 0;
  std::uint32_t segments_sent = 0;
};

struct LoadOptions {
  std::int32_t threads = 0;        ///< 0: one a physical core
  std::vector<std::int32_t> cpus;  ///< thread i is pinned to cpus[i]; empty: the board's choice
  std::string device = "cpu";
};

struct LoadedModule {
  std::uint32_t handle = 0;  ///< of this connection only
  std::string target;        ///< the variant that the board chose
  std::vector<TensorDescription> inputs;
  std::vector<TensorDescription> outputs;
  std::optional<std::chrono::nanoseconds> load_time;  ///< on the board; boards before 0.2 do not say
  std::string precision;                              ///< of f32's products; empty: the module does not say
};

/// One run, on the board's clock.
struct RunTime {
  std::chrono::nanoseconds run{0};
  std::chrono::nanoseconds preparing{
      0};  ///< before it: binding shapes and finding memory, if that had to be done
};

struct BenchmarkOptions {
  std::uint32_t warmup = 3;   ///< runs before the first sample
  std::uint32_t number = 1;   ///< runs a sample
  std::uint32_t repeat = 20;  ///< samples
  double min_repeat_ms = 0;   ///< `number` grows until a sample takes this long
  double cooldown_ms = 0;     ///< sleep between samples
  bool flush_cache = false;   ///< sweep the caches of every core that runs before each run
  bool profile = false;       ///< also time each kernel
  bool count_instructions = false;  ///< also count what each step executes; not of streams
  /// 0: the board's longest. It ends with what has been measured; a run that is longer than that is killed.
  std::chrono::milliseconds deadline{0};
  /// Where not 0: so many sessions run at once for `duration_ms` (warm-up, repeat and number do not count).
  std::uint32_t streams = 0;
  double duration_ms = 0;
};
/// What a lease is asked for.
struct LeaseOptions {
  LeasePriority priority = LeasePriority::kNormal;
  std::string purpose;                        ///< for others who wait; what is longer than 160 bytes is cut
  std::chrono::milliseconds longest_wait{0};  ///< zero: for ever
};
struct Lease {
  std::uint64_t token = 0;              ///< for join_lease() of the same user's other sessions
  std::chrono::milliseconds turn{0};    ///< after it the holder gives way to others that wait
  std::chrono::milliseconds waited{0};  ///< for others
};
/// Somebody who measures on a board or waits to; texts are theirs.
struct LeaseEntry {
  std::string key;      ///< identity of its key; "": a board without keys
  std::string address;  ///< of its machine
  std::string purpose;
  LeasePriority priority = LeasePriority::kNormal;
  std::chrono::milliseconds since{0};  ///< it has measured, or waited
};
struct MeasuringQueue {
  std::optional<LeaseEntry> holder;
  bool measuring = false;                  ///< at this moment, not only between two measurements
  std::chrono::milliseconds turn_left{0};  ///< of the holder; negative: it is to give way
  std::chrono::milliseconds turn{0};
  std::vector<LeaseEntry> waiting;  ///< the next one first; of many not all
  std::uint32_t waiting_count = 0;
  std::uint32_t position = 0;  ///< of the session that asks, from 1 on; 0: it does not wait
  std::uint32_t sessions = 0;  ///< of its key, itself among them; on a board without keys of everybody
};
using LeaseProgress = std::function<void(const MeasuringQueue&)>;

/// What another session did on the board while a benchmark ran.
struct OtherWork {
  std::string key, address;
  struct Amount {
    std::uint64_t count = 0;
    double ms = 0;  ///< of the benchmark's time
  };
  Amount runs, loads, transfers;  ///< of modules; their loading; data and segments
};

using BenchmarkProgress = std::function<void(std::uint32_t samples_done, std::uint32_t samples_total)>;

struct BenchmarkStatistics {
  double min_ms = 0, median_ms = 0, mean_ms = 0, p90_ms = 0, p99_ms = 0, stddev_ms = 0;
};
struct KernelTiming {
  std::string name;    ///< ops of the kernel
  std::string origin;  ///< the user's ONNX nodes, separated by ", "
  std::uint64_t calls = 0;
  double total_ms = 0;     ///< of one run: all its calls
  double flops = 0;        ///< of one run
  double bytes = 0;        ///< compulsory memory traffic of one run
  std::string symbol;      ///< the kernel's name, and its function's; "" for a copy, and from older boards
  std::uint32_t step = 0;  ///< index in the plan
  std::string op;          ///< of the ops, the one that the kernel is for: "nn.conv"; "" as `symbol`
};
/// One run, timed on every thread; times are since its begin.
struct Timeline {
  struct Thread {
    std::string name;                 ///< "thread 0", which is the one that runs the steps; "GPU"
    std::optional<std::int32_t> cpu;  ///< that it computed on; none: not known, or several
  };
  struct Step {
    double begin_us = 0, end_us = 0;
  };
  /// A stretch in which a thread computed a part of a step.
  struct Span {
    std::uint32_t thread = 0, step = 0;
    double begin_us = 0, end_us = 0;
  };
  double run_ms = 0;
  std::vector<Thread> threads;
  std::vector<Step> steps;  ///< in the plan's order
  std::vector<Span> spans;  ///< a thread's together, in order and without overlap
};
/// Figures that the board does not show are absent (empty lists, nullopt).
struct CpuState {
  std::vector<double> frequency_mhz;  ///< by logical CPU
  std::optional<double> temperature_celsius;
  std::optional<std::uint64_t> throttle_events;
  std::string governor;
};
struct GpuState {
  std::optional<double> clock_mhz, temperature_celsius, power_watts;
  std::optional<bool> throttled;  ///< by heat or power
};
/// The machine at one moment of a benchmark. What it does not show is absent, never 0. Readings are made at
/// the start, between samples, and at the end; none while the clock of a sample runs.
struct ProbeReading {
  double at_ms = 0;               ///< since the first reading
  std::vector<double> clock_mhz;  ///< of each of `reading_cpus`, in that order; empty where one is not shown
  std::optional<double> temperature_celsius;    ///< of the CPU's hottest sensor
  std::optional<std::int64_t> throttle_events;  ///< of those CPUs and their packages, since boot
  /// Now or since the reading before: the clock is held back by heat, power, or a cap that came while it ran.
  /// Many machines never say "false".
  std::optional<bool> throttled;
  std::optional<double> energy_joules;  ///< since the first reading, of what probe_notes names
  /// Of the same: now where the board measures power, else the mean since the reading before.
  std::optional<double> power_watts;
  /// Since the last reading that has them, shares of the CPU time that all of the machine's CPUs have: what
  /// other processes used, and what a hypervisor gave to other machines.
  std::optional<double> others_share, steal_share;
  std::optional<double> gpu_clock_mhz, gpu_temperature_celsius, gpu_power_watts;
  std::optional<bool> gpu_throttled;
};
/// How much of its speed the slowest of the cores gave at one moment of a benchmark, between samples: the
/// time of independent multiplications and additions, and of handing a line of memory from thread to thread,
/// over that of a chain of dependent multiplications. Of cores that nobody else uses it is a number of the
/// machine's model, whatever its clock does; who shares a core raises it, and so do cores that share no cache
/// where others did.
struct CorePulse {
  double at_ms = 0;  ///< since the first sample's start; the first one was before that
  double value = 0;
  double lowest =
      0;  ///< that of the core that gave most, where all are alike and have a thread each; else as `value`
};
struct BenchmarkResult {
  std::vector<double> samples_ms;  ///< of one run each (a sample's time over `number`)
  /// That were measured: more than there are in samples_ms where streams ran so often that every second,
  /// fourth, … run was kept.
  std::uint64_t samples_taken = 0;
  std::vector<double>
      started_ms;              ///< of each sample, since the first one's start; empty from boards before 0.2
  std::uint32_t number = 1;    ///< runs a sample as used
  double elapsed_ms = 0;       ///< of streams: from their common start to the last one's end
  double runs_per_second = 0;  ///< of streams: the sum of their rates
  bool reached_deadline = false;  ///< which left no time for the other samples, kernels or runs
  BenchmarkStatistics statistics;
  std::vector<KernelTiming> kernels;  ///< in the plan's order; empty without `profile`
  /// Of the median run of a few that were traced; none without `profile`, and from boards before 0.2.
  std::optional<Timeline> timeline;
  /// With `count_instructions`, what each step of the plan executes in a run, on all threads, outside of the
  /// kernel. Empty where the board cannot count: instructions_problem says why, or is empty too on a board
  /// that does not know of it.
  std::vector<std::uint64_t> step_instructions;
  std::string instructions_problem;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t weights_bytes = 0;
  std::uint64_t io_bytes = 0;
  std::uint64_t peak_resident_bytes = 0;  ///< of the process that ran the module; 0: unknown
  /// In the GPU's memory; all 0 for other devices.
  std::uint64_t device_workspace_bytes = 0, device_weights_bytes = 0, device_io_bytes = 0;
  std::int32_t threads = 0;
  std::string target;
  CpuState cpu_before;
  CpuState cpu_during;
  CpuState cpu_after;
  GpuState gpu_before, gpu_after;
  std::vector<ProbeReading> readings;      ///< in the order of time; none from boards of older versions
  std::vector<std::int32_t> reading_cpus;  ///< the CPUs that the session's threads ran on
  /// In the order of time; none from older boards, of streams, of GPUs, and where they would mean nothing.
  std::vector<CorePulse> pulses;
  /// For people, a line each: where figures of the readings come from ("energy: RAPL package-0"), and what
  /// held the clock back at some time ("throttled: Raspberry Pi: under-voltage").
  std::vector<std::string> probe_notes;
  std::chrono::milliseconds waited{0};  ///< for others who measured, before it began
  std::vector<OtherWork> others;        ///< beside it; always empty from boards before 0.2
  BoardInfo board;
};

}  // namespace gantry::rpc
#endif
