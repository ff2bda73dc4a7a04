#include "device_runtime/src/machine_watch.h"

#include <algorithm>
#include <utility>

#include "device_runtime/src/cpu_info.h"
#include "device_runtime/src/cuda_module.h"
#include "device_runtime/src/executor.h"

namespace gantry::runtime {
namespace {

double now_ms() {
  return static_cast<double>(now_ns()) * 1e-6;
}

/// Each once, in their order.
std::vector<int> sorted(std::vector<int> cpus) {
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  if (!cpus.empty() && cpus.front() < 0) cpus.erase(cpus.begin());
  return cpus;
}

/// Siblings of one core have one clock.
std::vector<int> cores_of(const std::vector<int>& cpus) {
  std::vector<int> cores;
  cores.reserve(cpus.size());
  for (const int cpu : cpus) cores.push_back(cpu_info().core_cpu(cpu));
  return sorted(std::move(cores));
}

}  // namespace

MachineWatch::MachineWatch(const Module& module, std::function<std::vector<int>()> thread_cpus,
                           const std::string& root)
    : module_(module), thread_cpus_(std::move(thread_cpus)), root_(root) {
  begin(sorted(thread_cpus_()));
}

void MachineWatch::begin(std::vector<int> cpus) {
  ProbeOptions options;
  options.root = root_;
  options.cpus = std::move(cpus);
  if (module_.gpu() != nullptr) options.gpu_bus_id = module_.gpu()->device()->bus_id();
  log_ = std::make_unique<ReadingLog>(options.cpus.size());
  probes_ = std::make_unique<Probes>(options);
  read(false);
  before_ = probes_->cpu_state(log_->readings().front());
}

void MachineWatch::settle() {
  std::vector<int> cpus = sorted(thread_cpus_());
  if (cores_of(cpus) != cores_of(probes_->cpus())) begin(std::move(cpus));
}

void MachineWatch::read(bool last) {
  const double started = now_ms();
  ProbeReading reading = probes_->read(started, last);
  log_->add(std::move(reading), started, now_ms());
}

void MachineWatch::look() {
  if (log_->is_due(now_ms())) read(false);
}

MachineRecord MachineWatch::finish() {
  read(true);
  MachineRecord record;
  record.reading_cpus = probes_->cpus();
  record.probe_notes = probes_->notes();
  if (cores_of(sorted(thread_cpus_())) != cores_of(record.reading_cpus))
    record.probe_notes.emplace_back(
        "clock: threads moved to other cores than those whose clock was read: pin them");
  record.reading_summary = log_->summary();
  record.readings = log_->take();
  record.before = before_;
  record.during = probes_->cpu_state(record.readings[record.readings.size() / 2]);
  record.after = probes_->cpu_state(record.readings.back());
  record.gpu_before = record.readings.front().gpu;
  record.gpu_after = record.readings.back().gpu;
  return record;
}

}  // namespace gantry::runtime
