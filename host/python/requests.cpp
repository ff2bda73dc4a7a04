#include "host/python/requests.h"

#include <fmt/ranges.h>
#include <pybind11/stl.h>

#include <chrono>

#include "host/python/arrays.h"
#include "host/python/errors.h"
#include "host/python/given_size.h"
#include "host/python/module.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

/// Sets `member` where the request has the key.
template <typename T>
bool take(const py::dict& request, const char* key, T& member) {
  if (!request.contains(key) || request[key].is_none()) return false;
  member = request[key].cast<T>();
  return true;
}

/// As take, of what is optional in the options too.
template <typename T>
void take_optional(const py::dict& request, const char* key, std::optional<T>& member) {
  if (T value{}; take(request, key, value)) member = value;
}

void take_model(const py::dict& request, cli::ExecutionOptions& options) {
  take(request, "file", options.file);
  if (request.contains("module")) {
    options.contents = request["module"].cast<std::shared_ptr<LoadedModule>>()->bytes();
  } else if (request.contains("contents")) {
    const py::bytes contents = request["contents"];
    const std::string_view bytes = contents;
    options.contents = cli::aligned_copy(std::as_bytes(std::span(bytes)));
  }
}

/// "NAME=1x3x?" of (NAME, [1, 3, -1]), as --shape takes them.
void take_shapes(const py::dict& request, cli::ExecutionOptions& options) {
  GivenSizes given;
  take(request, "shapes", given.shapes);
  take(request, "dims", given.sizes);
  for (const auto& [name, shape] : given.shapes) {
    std::string text;
    for (const GivenSize& size : shape) text += (text.empty() ? "" : "x") + to_string(size);
    options.shapes.push_back(name + "=" + text);
  }
  for (const auto& [name, size] : given.sizes)
    options.sizes.push_back(fmt::format("{}={}", name, to_string(size)));
}

}  // namespace

cli::Invocation Listener::invocation() {
  cli::Invocation invocation;
  invocation.arguments = {"python"};
  invocation.quiet = true;
  invocation.hear = [this](const std::string& message, bool warning) {
    messages_.emplace_back(message, warning);
  };
  invocation.check_interrupt = check_interrupt;
  return invocation;
}

py::list Listener::messages() const {
  py::list list;
  for (const auto& [message, warning] : messages_) list.append(py::make_tuple(to_text(message), warning));
  return list;
}

void Listener::check_interrupt() {
  using Clock = std::chrono::steady_clock;
  thread_local Clock::time_point checked;
  const Clock::time_point now = Clock::now();
  if (now - checked < std::chrono::milliseconds(20)) return;
  checked = now;
  const py::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

cli::ExecutionOptions execution_options(const py::dict& request) {
  cli::ExecutionOptions options;
  take_model(request, options);
  take(request, "board", options.board);
  take(request, "key", options.key);
  take(request, "device", options.device);
  take(request, "threads", options.threads);
  if (std::vector<int> cpus; take(request, "cpus", cpus))
    options.cpus = fmt::format("{}", fmt::join(cpus, ","));
  // Asked for of a module they are refused, as on the command line.
  const auto given = [&](const char* key, const char* name, auto& member) {
    if (take(request, key, member)) options.given.push_back(name);
  };
  given("gpu_arch", "--gpu-arch", options.gpu_arch);
  given("gpu_checks", "--gpu-checks", options.gpu_checks);
  given("precision", "--precision", options.precision);
  given("optimize", "--optimize", options.optimize);
  given("opt", "--opt", options.opt_level);
  given("custom_ops", "--custom-ops", options.custom_ops);
  given("keep_inputs", "--keep-input", options.kept_inputs);
  take(request, "no_cache", options.no_cache);
  take_shapes(request, options);
  take_optional(request, "seed", options.seed);
  if (request.contains("tensors")) {
    for (const auto& [name, array] : request["tensors"].cast<py::dict>()) {
      const std::string input = from_text(name);
      options.tensors[input] = to_host(array, input);
    }
  }
  return options;
}

cli::MeasureOptions measure_options(const py::dict& request) {
  cli::MeasureOptions options;
  take(request, "duration_s", options.duration_s);
  take(request, "precision_goal", options.precision_goal);
  take_optional(request, "processes", options.processes);
  take_optional(request, "warmup", options.warmup);
  take_optional(request, "repeat", options.repeat);
  take_optional(request, "number", options.number);
  take(request, "min_repeat_ms", options.min_repeat_ms);
  take(request, "cooldown_ms", options.cooldown_ms);
  take(request, "cold", options.cold);
  take(request, "profile", options.profile);
  take(request, "streams", options.streams);
  return options;
}

cli::CompareMeasureOptions compare_options(const py::dict& request) {
  cli::CompareMeasureOptions options;
  take(request, "smallest_effect", options.statistics.smallest_effect);
  take(request, "duration_s", options.duration_s);
  take_optional(request, "rounds", options.rounds);
  take_optional(request, "warmup", options.measure.warmup);
  take(request, "cold", options.measure.cold);
  return options;
}

}  // namespace gantry::python
