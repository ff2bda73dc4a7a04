#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <nlohmann/json.hpp>

#include "gantry/runtime.h"
#include "host/cli/bench_model.h"
#include "host/cli/command_traces.h"
#include "host/cli/compare_models.h"
#include "host/cli/machine_json.h"
#include "host/cli/report/page.h"
#include "host/cli/report/report_data.h"
#include "host/cli/trace_file.h"
#include "host/codegen/find_target.h"
#include "host/machine/target.h"
#include "host/python/arrays.h"
#include "host/python/errors.h"
#include "host/python/requests.h"
#include "host/support/output_file.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

void hear_progress(const std::string&, double) {
  Listener::check_interrupt();
}

std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Where a trace is asked for: begins to record. Empty: it is not.
std::string begin_trace(const py::dict& request, cli::Invocation& invocation) {
  std::string file;
  if (request.contains("trace")) file = request["trace"].cast<std::string>();
  cli::begin_trace(file, /*force=*/false, invocation, "trace");
  return file;
}

void write_trace(const Trace& trace, const std::string& file) {
  cli::write_trace(trace, file, cli::expect_trace_format(file, "trace"));
}

/// The document of `gantry bench --json`.
py::tuple bench(const py::dict& request, const py::dict& measure) {
  cli::ExecutionOptions execution = execution_options(request);
  execution.seed = execution.seed.value_or(0);
  const cli::MeasureOptions options = measure_options(measure);
  execution.keep_program = options.profile;
  Listener listener;
  cli::Invocation invocation = listener.invocation();
  const std::string trace = begin_trace(request, invocation);
  const std::string json = without_lock([&] {
    const cli::BenchReport report = cli::bench_model(execution, options, invocation, hear_progress);
    if (!trace.empty()) write_trace(cli::bench_trace(report, invocation), trace);
    return cli::report_to_json(report);
  });
  return py::make_tuple(json, listener.messages());
}

/// The document of `gantry compare --json`.
py::tuple compare(const py::dict& first, const py::dict& second, const py::dict& measure) {
  cli::CompareSide sides[] = {{execution_options(first), {}}, {execution_options(second), {}}};
  const py::dict requests[] = {first, second};
  for (size_t i : {0, 1}) {
    sides[i].execution.seed = sides[i].execution.seed.value_or(0);
    sides[i].name = requests[i]["name"].cast<std::string>();
  }
  cli::CompareMeasureOptions options = compare_options(measure);
  options.seed = measure["order_seed"].cast<uint64_t>();
  Listener listener;
  const std::string json = without_lock([&] {
    return cli::comparison_json(
        cli::compare_models(sides[0], sides[1], options, listener.invocation(), hear_progress));
  });
  return py::make_tuple(json, listener.messages());
}

/// The same of two results that were measured before.
std::string compare_results(const std::filesystem::path& first, const std::filesystem::path& second,
                            double smallest_effect) {
  return without_lock([&] {
    cli::CompareOptions statistics;
    statistics.smallest_effect = smallest_effect;
    return cli::comparison_json(cli::compare_results(first, second, statistics));
  });
}

py::tuple run(const py::dict& request) {
  const cli::ExecutionOptions options = execution_options(request);
  Listener listener;
  cli::Invocation invocation = listener.invocation();
  const std::string trace = begin_trace(request, invocation);
  double milliseconds = 0;
  std::vector<std::string> output_names;
  std::vector<cli::HostTensor> outputs;
  without_lock([&] {
    cli::Execution execution = cli::prepare_execution(options, invocation);
    Listener::check_interrupt();
    milliseconds = static_cast<double>(execution.machine->run().run.count()) / 1e6;
    for (size_t i = 0; i < execution.loaded.outputs.size(); ++i) {
      output_names.push_back(execution.loaded.outputs[i].name);
      outputs.push_back(execution.machine->output(static_cast<int>(i)));
    }
    if (!trace.empty()) write_trace(cli::run_trace(options, execution, invocation), trace);
  });
  const bool torch = request.contains("torch") && request["torch"].cast<bool>();
  py::list arrays, names;
  for (cli::HostTensor& output : outputs) arrays.append(to_python(std::move(output), torch));
  for (const std::string& name : output_names) names.append(to_text(name));
  return py::make_tuple(arrays, names, milliseconds, listener.messages());
}

/// The page of `gantry report`. `names`: what it calls the results.
void report(const std::vector<std::string>& results, const std::vector<std::string>& names,
            const std::string& output, bool force) {
  without_lock([&] {
    cli::OutputPlan plan;
    for (const std::string& result : results) plan.reads(result, "the result");
    plan.writes(output, cli::FileKind::kReport, "output", force);
    write_file(output, cli::report_page(cli::report_data(results, gantry_version(), names)));
  });
}

/// The document of `gantry boards info --json`, with the label; `board` empty: of this machine.
std::string board_info(const std::string& board, const std::string& key) {
  return without_lock([&] {
    const auto machine = cli::open_machine(board, key);
    const rpc::BoardInfo& info = machine->info_with_gpus();
    nlohmann::ordered_json json = cli::board_info_json(info);
    json["session_memory_bytes"] = info.session_memory_bytes;
    json["address"] = machine->address();
    json["target"] = target_of_board(info.architecture, info.llvm_cpu, info.features).name;
    json["label"] = machine->label();
    return text_of(json);
  });
}

/// name: (address, key file)
py::dict boards() {
  const auto file = without_lock([] { return cli::BoardsFile::read(cli::boards_path()); });
  py::dict dict;
  for (const auto& [name, entry] : file.boards())
    dict[to_text(name)] = py::make_tuple(to_text(entry.address), to_text(entry.key.string()));
  return dict;
}

/// (name as given, address), or a user error with the nearest names.
py::tuple resolve(const std::string& board, const std::string& key) {
  const cli::BoardChoice choice =
      without_lock([&] { return cli::resolve_board(board, key, cli::BoardsFile::read(cli::boards_path())); });
  return py::make_tuple(to_text(choice.label), to_text(choice.entry.address));
}

}  // namespace

void add_measure(py::module_& module) {
  module.def("bench", &bench);
  module.def("compare", &compare);
  module.def("compare_results", &compare_results);
  module.def("report", &report);
  module.def("run", &run);
  module.def("board_info", &board_info);
  module.def("boards", &boards);
  module.def("resolve_board", &resolve);
}

}  // namespace gantry::python
