#include <pthread.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <variant>

#include "gantry/strings.h"
#include "host/compiler/string_tensors.h"
#include "host/python/arrays.h"
#include "host/python/errors.h"
#include "host/python/module.h"
#include "host/support/suggest.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

/// Forks since the module was imported: a child has none of the threads that its parent's sessions have.
std::atomic<uint64_t> forks = 0;

/// A session of the runtime and whose turn it is.
struct RuntimeSession {
  ~RuntimeSession() { gantry_session_release(session); }
  GantrySession* session = nullptr;
  std::mutex mutex;
  uint64_t forks = 0;
};

class Session {
 public:
  Session(std::shared_ptr<LoadedModule> module, int threads, std::vector<int32_t> cpus, std::string device)
      : module_(std::move(module)), threads_(threads), cpus_(std::move(cpus)), device_(std::move(device)) {
    without_lock([&] { runtime_ = create(); });
  }
  ~Session() { abandon_of_parent(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Runs once. Threads that call it at the same time take turns.
  py::object call(const py::args& args, const py::kwargs& kwargs) {
    const Inputs inputs = match(args, kwargs);
    Outputs outputs(module_->output_count());
    run(inputs, outputs);
    const bool torch =
        std::ranges::any_of(inputs, [](const auto& input) { return input.has_value() && input->is_torch(); });
    if (outputs.size() == 1) return as_python(std::move(outputs[0]), torch);
    py::tuple results(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) results[i] = as_python(std::move(outputs[i]), torch);
    return results;
  }

  /// Runs once with a clock around every step; a plan of more than 4096 steps runs once more.
  py::list time_steps(const py::args& args, const py::kwargs& kwargs) {
    const Inputs inputs = match(args, kwargs);
    std::vector<GantryStepTime> steps(4096);
    with_session(inputs, [&](GantrySession* session) {
      for (;;) {
        const auto room = static_cast<int32_t>(steps.size());
        int32_t count = 0;
        const GantryStatus status =
            gantry_time_steps(session, steps.data(), sizeof(GantryStepTime), room, &count);
        if (status != GANTRY_OK) return status;
        steps.resize(static_cast<size_t>(count));
        if (count <= room) return status;
      }
    });
    py::list rows;
    for (size_t i = 0; i < steps.size(); ++i) {
      py::dict row;
      row["step"] = i;
      row["symbol"] = to_text(steps[i].symbol);
      row["ops"] = to_text(steps[i].ops);
      row["origin"] = to_text(steps[i].origin);
      row["ms"] = static_cast<double>(steps[i].nanoseconds) / 1e6;
      row["flops"] = steps[i].flops;
      row["bytes"] = steps[i].bytes;
      rows.append(row);
    }
    return rows;
  }

  py::dict memory() {
    GantrySessionMemory memory{};
    memory.struct_size = sizeof memory;
    without_lock([&] {
      const std::shared_ptr<RuntimeSession> current = current_session();
      const std::lock_guard turn(current->mutex);
      check(gantry_session_memory(current->session, &memory));
    });
    py::dict dict;
    dict["workspace_bytes"] = memory.workspace_bytes;
    dict["weights_bytes"] = memory.weights_bytes;
    dict["io_bytes"] = memory.io_bytes;
    dict["device_workspace_bytes"] = memory.device_workspace_bytes;
    dict["device_weights_bytes"] = memory.device_weights_bytes;
    dict["device_io_bytes"] = memory.device_io_bytes;
    return dict;
  }

 private:
  using Inputs = std::vector<std::optional<InputArray>>;
  /// Memory of the runtime's own; of strings, which it keeps for one run alone, a copy.
  using Output = std::variant<ManagedTensor, cli::HostTensor>;
  using Outputs = std::vector<Output>;

  static py::object as_python(Output output, bool torch) {
    return std::visit([&](auto& tensor) { return to_python(std::move(tensor), torch); }, output);
  }

  static void check(GantryStatus status) {
    if (status != GANTRY_OK) raise_runtime_error(status, gantry_last_error());
  }

  std::shared_ptr<RuntimeSession> create() const {
    GantrySessionOptions options{};
    options.struct_size = sizeof options;
    options.threads = threads_;
    options.cpus = cpus_.empty() ? nullptr : cpus_.data();
    options.cpu_count = static_cast<int32_t>(cpus_.size());
    options.device = device_.c_str();
    auto created = std::make_shared<RuntimeSession>();
    created->forks = forks.load(std::memory_order_relaxed);
    check(gantry_session_create(module_->runtime_module(), &options, &created->session));
    return created;
  }

  /// A parent's session waits for threads that are not here, even to end: it is left as it is.
  void abandon_of_parent() {
    if (runtime_ && runtime_->forks != forks.load(std::memory_order_relaxed))
      new std::shared_ptr<RuntimeSession>(std::move(runtime_));
  }

  std::shared_ptr<RuntimeSession> current_session() {
    const std::lock_guard lock(mutex_);
    abandon_of_parent();
    if (!runtime_) runtime_ = create();
    return runtime_;
  }

  /// The arguments in the order of the model's inputs. User errors name the inputs.
  Inputs match(const py::args& args, const py::kwargs& kwargs) const {
    const std::vector<std::string>& names = module_->input_names();
    Inputs inputs(names.size());
    if (args.size() > names.size()) {
      user_error("{} arrays given, but the model takes {}: {}", args.size(), names.size(),
                 module_->inputs_text());
    }
    for (size_t i = 0; i < args.size(); ++i) inputs[i].emplace(py::object(args[i]), names[i]);
    for (const auto& [key, value] : kwargs) {
      const std::string name = from_text(key);
      const auto found = std::ranges::find(names, name);
      if (found == names.end()) {
        user_error(
            "the model has no input '{}'; it takes {}{}; one that has a default in the model is a constant "
            "unless that is "
            "compiled with keep_inputs",
            name, module_->inputs_text(), did_you_mean(name, names));
      }
      auto& input = inputs[static_cast<size_t>(found - names.begin())];
      if (input) user_error("input '{}' is given twice, by place and by name", name);
      input.emplace(value, name);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i])
        user_error("input '{}' is not given; the model takes {}", names[i], module_->inputs_text());
    }
    return inputs;
  }

  /// Sets the inputs and has `work` done, while other threads of Python go on.
  template <typename Work>
  void with_session(const Inputs& inputs, const Work& work) {
    without_lock([&] {
      const std::shared_ptr<RuntimeSession> current = current_session();
      const std::lock_guard turn(current->mutex);
      for (size_t i = 0; i < inputs.size(); ++i) check(set_input(current->session, i, *inputs[i]));
      check(work(current->session));
    });
  }

  void run(const Inputs& inputs, Outputs& outputs) {
    with_session(inputs, [&](GantrySession* session) {
      GantryStatus status = gantry_run(session);
      for (size_t i = 0; i < outputs.size() && status == GANTRY_OK; ++i) {
        status = take_output(session, static_cast<int32_t>(i), outputs[i]);
      }
      return status;
    });
  }

  /// Integers of less than 8 bits come as bytes. User error where an element has more bits than the input's.
  GantryStatus set_input(GantrySession* session, size_t index, const InputArray& input) const {
    DLTensor tensor = input.tensor();
    const auto place = static_cast<int32_t>(index);
    if (tensor.dtype.code == kDLOpaqueHandle) return set_strings(session, place, input);
    const rpc::ElementType wanted = module_->input_type(index);
    if (tensor.dtype.lanes == 1)
      tensor.dtype.bits = cli::array_stands_for({tensor.dtype.code, tensor.dtype.bits}, wanted).bits;
    const GantryStatus status = gantry_set_input(session, place, &tensor, /*borrow=*/1);
    if (status == GANTRY_OK && wanted.bits < 8)
      cli::check_elements(dense_copy(tensor), fmt::format("input '{}'", module_->input_names()[index]));
    return status;
  }

  static GantryStatus set_strings(GantrySession* session, int32_t index, const InputArray& input) {
    const DLTensor& tensor = input.tensor();
    std::vector<const char*> texts;
    std::vector<size_t> lengths;
    for (const std::string& text : input.texts()) {
      texts.push_back(text.data());
      lengths.push_back(text.size());
    }
    return gantry_set_strings(session, index, tensor.shape, tensor.ndim, texts.data(), lengths.data());
  }

  static GantryStatus take_output(GantrySession* session, int32_t index, Output& output) {
    DLTensor view{};
    const GantryStatus status = gantry_get_output(session, index, &view);
    if (status != GANTRY_OK) return status;
    if (view.dtype.code == kDLOpaqueHandle) return copy_strings(session, view, output);
    DLManagedTensor* taken = nullptr;
    const GantryStatus result = gantry_take_output(session, index, &taken);
    output = ManagedTensor(taken);
    return result;
  }

  static GantryStatus copy_strings(GantrySession* session, const DLTensor& view, Output& output) {
    cli::HostTensor tensor{{view.dtype.code, view.dtype.bits}, {view.shape, view.shape + view.ndim}, {}};
    std::vector<std::string_view> texts;
    for (int64_t i = 0; i < cli::element_count(tensor.shape); ++i) {
      const char* text = nullptr;
      size_t length = 0;
      const GantryStatus status =
          gantry_get_string(session, static_cast<const uint64_t*>(view.data)[i], &text, &length);
      if (status != GANTRY_OK) return status;
      texts.emplace_back(text, length);
    }
    tensor.bytes = packed_strings(texts);
    output = std::move(tensor);
    return GANTRY_OK;
  }

  std::shared_ptr<LoadedModule> module_;
  int threads_;
  std::vector<int32_t> cpus_;
  std::string device_;
  std::mutex mutex_;  ///< of runtime_
  std::shared_ptr<RuntimeSession> runtime_;
};

}  // namespace

void add_session_class(py::module_& module) {
  pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  py::class_<Session>(module, "Session")
      .def(py::init<std::shared_ptr<LoadedModule>, int, std::vector<int32_t>, std::string>())
      .def("__call__", &Session::call)
      .def("time_steps", &Session::time_steps)
      .def("memory", &Session::memory);
}

}  // namespace gantry::python
