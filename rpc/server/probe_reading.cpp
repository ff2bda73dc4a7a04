#include "rpc/server/probe_reading.h"

#include <optional>
#include <type_traits>

namespace gantry::rpc {
namespace {

std::unique_ptr<wire::CpuStateT> to_wire(const runtime::CpuState& state) {
  auto result = std::make_unique<wire::CpuStateT>();
  if (state.frequency_mhz) result->frequency_mhz.push_back(*state.frequency_mhz);
  if (state.temperature_c) result->temperature_celsius = *state.temperature_c;
  if (state.throttle_count) result->throttle_events = *state.throttle_count;
  result->governor = state.governor;
  return result;
}

std::unique_ptr<wire::GpuStateT> to_wire(const runtime::GpuState& state) {
  auto result = std::make_unique<wire::GpuStateT>();
  if (state.clock_mhz) result->clock_mhz = *state.clock_mhz;
  if (state.temperature_c) result->temperature_celsius = *state.temperature_c;
  if (state.power_watts) result->power_watts = *state.power_watts;
  if (state.throttled) result->throttled = *state.throttled ? 1 : 0;
  return result;
}

std::unique_ptr<wire::ProbeReadingT> to_wire(const runtime::ProbeReading& reading) {
  auto result = std::make_unique<wire::ProbeReadingT>();
  // What is absent keeps the schema's mark of it.
  const auto set = [](auto& to, const auto& from) {
    if (from) to = static_cast<std::remove_reference_t<decltype(to)>>(*from);
  };
  result->at_ms = reading.at_ms;
  result->clock_mhz = reading.clock_mhz;
  set(result->temperature_celsius, reading.temperature_c);
  set(result->throttle_events, reading.throttle_count);
  set(result->throttled, reading.throttled);
  set(result->energy_joules, reading.energy_j);
  set(result->power_watts, reading.power_w);
  set(result->others_share, reading.others_share);
  set(result->steal_share, reading.steal_share);
  set(result->gpu_clock_mhz, reading.gpu.clock_mhz);
  set(result->gpu_temperature_celsius, reading.gpu.temperature_c);
  set(result->gpu_power_watts, reading.gpu.power_watts);
  set(result->gpu_throttled, reading.gpu.throttled);
  return result;
}

}  // namespace

void add_machine(const runtime::MachineRecord& record, wire::BenchmarkFinishedT& out) {
  out.cpu_before = to_wire(record.before);
  out.cpu_during = to_wire(record.during);
  out.cpu_after = to_wire(record.after);
  out.gpu_before = to_wire(record.gpu_before);
  out.gpu_after = to_wire(record.gpu_after);
  for (const runtime::ProbeReading& reading : record.readings) out.readings.push_back(to_wire(reading));
  out.reading_cpus.assign(record.reading_cpus.begin(), record.reading_cpus.end());
  out.probe_notes = record.probe_notes;
}

}  // namespace gantry::rpc
