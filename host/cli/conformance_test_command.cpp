// conformance-test, which `gantry conformance` starts once a test: compiles the test's model as it stands,
// runs it on the test's data and compares. What it finds goes to stdout in the lines of
// host/conformance/child_messages.h.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "host/cli/commands.h"
#include "host/cli/conformance_way.h"
#include "host/cli/execution.h"
#include "host/cli/model_source.h"
#include "host/cli/tensor_constant.h"
#include "host/conformance/child_messages.h"
#include "host/conformance/found_tests.h"
#include "host/graph/late_values.h"
#include "host/onnx/import.h"
#include "host/onnx/unsupported.h"
#include "host/support/error.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;
using conformance::Status;
using conformance::TestDatum;
using conformance::TestModel;
using conformance::TestResult;

/// What is said of the test; nothing once a result has been said.
class Messages {
 public:
  void phase(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    phase_ = name;
    say(conformance::phase_line(name));
  }
  std::string phase() {
    const std::scoped_lock lock(mutex_);
    return phase_;
  }
  void result(TestResult result) {
    const std::scoped_lock lock(mutex_);
    if (!result.passed()) result.phase = phase_;
    say(conformance::result_line(result));
    said_ = true;
  }

 private:
  void say(const std::string& line) const {
    if (said_) return;
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t size = ::write(STDOUT_FILENO, line.data() + sent, line.size() - sent);
      if (size < 0 && errno != EINTR) return;
      sent += size > 0 ? static_cast<size_t>(size) : 0;
    }
  }
  std::mutex mutex_;
  std::string phase_ = "start";
  bool said_ = false;
};

/// Says that the test's time is up and ends the process as a signal does, which ends its gantry-device, too.
void end_in_time(const std::shared_ptr<Messages>& messages, double seconds) {
  std::thread([messages, seconds] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    TestResult result;
    result.status = Status::kTimeout;
    result.reason = fmt::format("took more than {} s (--timeout takes another limit), in phase {}", seconds,
                                messages->phase());
    messages->result(std::move(result));
    ::kill(::getpid(), SIGTERM);
  }).detach();
}

/// Lengths of sequences and shapes of their elements, and which optionals have no value: a module is compiled
/// for them.
GivenSizes sizes_of_structures(const TestModel& model, const fs::path& data_set) {
  GivenSizes sizes;
  const std::vector<fs::path> files = conformance::values_of(data_set, "input");
  for (size_t i = 0; i < std::min(files.size(), model.inputs.size()); ++i) {
    if (model.inputs[i].kind == conformance::ValueKind::kTensor) continue;
    const TestDatum value = conformance::read_value(files[i], model.inputs[i].kind);
    if (value.kind == TestDatum::Kind::kNothing) sizes.shapes[model.inputs[i].name] = {kNoValue};
    if (value.kind != TestDatum::Kind::kSequence) continue;
    sizes.shapes[model.inputs[i].name] = {static_cast<int64_t>(value.elements.size())};
    for (size_t e = 0; e < value.elements.size(); ++e) {
      const auto& tensor = value.elements[e].tensor;
      if (tensor)
        sizes.shapes[fmt::format("{}[{}]", model.inputs[i].name, e)] =
            given_shape(*constant_shape(tensor->type.shape));
    }
  }
  return sizes;
}

runtime::SharedBytes compile_model(const fs::path& model, const GivenSizes& sizes, const ConformanceWay& way,
                                   const Target& target, const Invocation& invocation, Messages& messages) {
  messages.phase("import");
  Graph graph = import_model(model, {.sizes = sizes}, invocation);
  messages.phase("compile");
  Progress progress(Verbosity::kQuiet);
  CompileOptions options = compile_options({target}, way.opt_level, progress);
  options.threads = 1;  // other tests are compiled beside this one
  options.precision = find_precision(way.precision);
  options.cache = open_cache(!way.no_cache);
  ModuleFile file = compile_graph(std::move(graph), options);
  return module_bytes(file);
}

void set_input(Machine& machine, const rpc::LoadedModule& loaded, const std::string& name,
               const TestDatum& value) {
  if (value.kind == TestDatum::Kind::kSequence) {
    for (size_t i = 0; i < value.elements.size(); ++i)
      set_input(machine, loaded, fmt::format("{}[{}]", name, i), value.elements[i]);
    return;
  }
  const auto found = std::ranges::find(loaded.inputs, name, [](const auto& input) { return input.name; });
  const bool is_there = found != loaded.inputs.end();
  if (is_there != (value.kind == TestDatum::Kind::kTensor)) {
    throw Unsupported(
        UnsupportedKind::kValueKind, "optionals with and without a value in one module",
        fmt::format("input '{}' is {}, and the module was compiled for other data", name, value.describe()));
  }
  if (!is_there) return;
  machine.set_input(static_cast<int>(found - loaded.inputs.begin()), to_host_tensor(*value.tensor));
}

/// Gives the module the data set's inputs, by name.
void set_inputs(Machine& machine, const rpc::LoadedModule& loaded, const TestModel& model,
                const fs::path& data_set) {
  const std::vector<fs::path> files = conformance::values_of(data_set, "input");
  if (files.size() != model.inputs.size()) {
    user_error("{}: has {} inputs, but the model has {}", data_set.string(), files.size(),
               model.inputs.size());
  }
  for (size_t i = 0; i < files.size(); ++i)
    set_input(machine, loaded, model.inputs[i].name, conformance::read_value(files[i], model.inputs[i].kind));
}

UnpackedOutputs outputs_of(Machine& machine, const rpc::LoadedModule& loaded, const TestModel& model) {
  std::set<std::string> tensors;
  for (const conformance::TestValue& output : model.outputs) {
    if (output.kind == conformance::ValueKind::kTensor) tensors.insert(output.name);
  }
  std::vector<NamedConstant> outputs;
  for (size_t i = 0; i < loaded.outputs.size(); ++i)
    outputs.push_back({loaded.outputs[i].name, to_constant(machine.output(static_cast<int>(i)))});
  return unpack_outputs(outputs, tensors);
}

/// The output as the model has it: a sequence's elements are outputs from `next` on.
TestDatum output_of(const UnpackedOutputs& outputs, const std::string& name, const TestDatum& like,
                    size_t& next) {
  TestDatum actual;
  const auto is_next = [&](const std::string& wanted) {
    return next < outputs.tensors.size() && outputs.tensors[next].name == wanted;
  };
  if (is_next(name)) {
    actual.tensor = outputs.tensors[next++].tensor;
    return actual;
  }
  // Which of the two a value without tensors is follows from the model, where it is not known by the run
  // alone.
  const bool is_nothing = outputs.absent.contains(name) ||
                          (like.kind == TestDatum::Kind::kNothing && !outputs.sequences.contains(name));
  actual.kind = is_nothing ? TestDatum::Kind::kNothing : TestDatum::Kind::kSequence;
  while (is_next(fmt::format("{}[{}]", name, actual.elements.size())))
    actual.elements.emplace_back().tensor = outputs.tensors[next++].tensor;
  return actual;
}

/// A pass, or the first output that is not as it should be.
TestResult compare_outputs(Machine& machine, const rpc::LoadedModule& loaded, const TestModel& model,
                           const fs::path& data_set, const conformance::Tolerance& tolerance) {
  const std::vector<fs::path> files = conformance::values_of(data_set, "output");
  if (files.size() > model.outputs.size())
    user_error("{}: has {} outputs, but the model has {}", data_set.string(), files.size(),
               model.outputs.size());
  TestResult result;
  const UnpackedOutputs outputs = outputs_of(machine, loaded, model);
  size_t next = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const TestDatum expected = conformance::read_value(files[i], model.outputs[i].kind);
    const TestDatum actual = output_of(outputs, model.outputs[i].name, expected, next);
    auto wrong = conformance::compare(actual, expected, tolerance);
    if (!wrong) continue;
    result.status = Status::kWrong;
    result.output = model.outputs[i].name;
    result.data_set = data_set.filename().string();
    result.reason = fmt::format("output '{}' {}", result.output, wrong->text());
    result.wrong = std::move(wrong);
    return result;
  }
  return result;
}

/// What fails here says nothing of the test: the machine is out of reach, as a board may be.
ConformancePlace place_of_test(const ConformanceWay& way) {
  try {
    return open_place(way);
  } catch (const Error& error) {
    board_error("{}", error.what());
  }
}

TestResult run_test(const fs::path& folder, const ConformanceWay& way, const Invocation& invocation,
                    Messages& messages) {
  const ConformancePlace place = place_of_test(way);
  const fs::path file = folder / "model.onnx";
  const std::vector<fs::path> sets = conformance::data_sets(folder);
  if (sets.empty()) user_error("{}: has no test_data_set_0", folder.string());
  const TestModel model = conformance::read_test_model(file);
  const GivenSizes sizes = sizes_of_structures(model, sets.front());
  const runtime::SharedBytes module = compile_model(file, sizes, way, place.target, invocation, messages);
  messages.phase("load");
  rpc::LoadOptions load;
  load.threads = way.threads;
  load.device = place.device;
  const rpc::LoadedModule loaded = place.machine->load(module, load, {});
  const conformance::Tolerance tolerance = conformance::tolerance_of(folder);
  for (const fs::path& set : sets) {
    messages.phase("data");
    set_inputs(*place.machine, loaded, model, set);
    messages.phase("run");
    place.machine->run();
    messages.phase("compare");
    TestResult result = compare_outputs(*place.machine, loaded, model, set, tolerance);
    if (!result.passed()) return result;
  }
  return {};
}

TestResult failed(Status status, const std::string& reason) {
  TestResult result;
  result.status = status;
  result.reason = reason;
  return result;
}

/// What an error says of a test. The kinds that say nothing of it, but that a board is gone, are thrown on.
TestResult judge_error(const Error& error) {
  if (error.kind() == ErrorKind::kBoard) throw Error(error);
  if (error.kind() == ErrorKind::kInternal)
    return failed(Status::kCrash, std::string("internal error: ") + error.what());
  TestResult result = failed(Status::kUnsupported, error.what());
  if (const auto* model = dynamic_cast<const UnsupportedModel*>(&error)) {
    for (const UnsupportedFeature& feature : model->features())
      result.features.push_back(fmt::format("{}: {}", name_of(feature.kind), feature.what));
  } else if (const auto* one = dynamic_cast<const Unsupported*>(&error)) {
    result.features.push_back(fmt::format("{}: {}", name_of(one->what_kind()), one->feature()));
  }
  return result;
}

TestResult judge_error(const rpc::Error& error, bool on_board) {
  switch (error.kind()) {
    case rpc::ErrorKind::kRequest:
      return failed(Status::kUnsupported, error.what());
    case rpc::ErrorKind::kRetry:
    case rpc::ErrorKind::kReconnect:
      if (on_board) throw rpc::Error(error);
      return failed(Status::kCrash, error.what());
    case rpc::ErrorKind::kBoard:
      return failed(Status::kCrash, error.what());
    case rpc::ErrorKind::kBug:
      return failed(Status::kCrash, std::string("internal error: ") + error.what());
  }
  internal_error("unknown kind of error");
}

TestResult judged(const fs::path& folder, const ConformanceWay& way, const Invocation& invocation,
                  Messages& messages) {
  try {
    return run_test(folder, way, invocation, messages);
  } catch (const Error& error) {
    return judge_error(error);
  } catch (const rpc::Error& error) {
    return judge_error(error, !way.board.empty());
  } catch (const std::bad_alloc&) {
    return failed(Status::kCrash, "out of memory on this machine");
  } catch (const std::exception& error) {
    return failed(Status::kCrash, std::string("internal error: ") + error.what());
  }
}

}  // namespace

void add_conformance_test_command(CLI::App& app, Invocation& invocation) {
  struct Options {
    std::string folder;
    ConformanceWay way;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand(kConformanceTestCommand, "Run one test, for `gantry conformance`")->group("");
  command->add_option("FOLDER", options->folder, "The test")->required();
  add_way_options(*command, options->way);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] {
      const auto messages = std::make_shared<Messages>();
      end_in_time(messages, options->way.timeout_seconds);
      invocation.hear = [](const std::string&, bool) {};
      messages->result(judged(options->folder, options->way, invocation, *messages));
      return 0;
    };
  });
}

}  // namespace gantry::cli
