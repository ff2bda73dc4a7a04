// Runs one packed case on one device, in a process of its own: what crashes, hangs or loses the GPU is that
// case's result alone. One line of JSON on stdout; exit code 0 where everything is as it must be.
//
// list shows a pack's cases; run runs one, of which a model is compiled for TARGET by the program GANTRY
// first; module runs a module once on zeros, for tools that watch kernels; fault has a kernel fail on a
// board, beside another session.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "benchmarks/gpu/child.h"
#include "benchmarks/gpu/fault.h"
#include "benchmarks/zero_inputs.h"
#include "gantry/runtime.h"
#include "host/support/error.h"
#include "host/support/temporary.h"
#include "tests/cases/case_pack.h"
#include "tests/cases/local_model.h"

namespace gantry::gpu_bundle {
namespace {

namespace fs = std::filesystem;
using conformance::CasePack;
using conformance::PackedCase;
using Json = nlohmann::ordered_json;

constexpr const char* kUsage =
    "usage: gpu_case list PACK\n"
    "       gpu_case run PACK CASE DEVICE [TARGET GANTRY]\n"
    "       gpu_case module FILE.gmod DEVICE\n"
    "       gpu_case fault PACK HOST:PORT\n"
    "Runs one of a pack's cases on cpu, cuda or cuda-emulated; a model is first compiled for TARGET by the\n"
    "program GANTRY. A line of JSON says what came of it.\n";

/// A case that is not as it must be.
struct Failure : std::runtime_error {
  Failure(std::string result, const std::string& text)
      : std::runtime_error(text), result(std::move(result)) {}
  std::string result;
};

void print(const Json& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

double milliseconds_since(Clock::time_point start) {
  return 1e3 * Seconds(Clock::now() - start).count();
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) user_error("{}: cannot be read", path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

/// Compiles the model by the gantry program.
std::vector<std::byte> compile(const PackedCase& c, const std::string& target, const std::string& gantry) {
  const TemporaryFolder folder("gpu-case");
  const fs::path model = folder.path() / "model.onnx", module = folder.path() / "model.gmod";
  std::ofstream(model, std::ios::binary) << c.program;
  const Outcome outcome =
      run({{gantry, "compile", model.string(), "--target", target, "-o", module.string()}, {}, Seconds(60)});
  if (!outcome.ok()) throw Failure("not compiled", outcome.why());
  return bytes_of(read_file(module));
}

/// What differs, as the fields of a result; empty if nothing does.
Json compare(const PackedCase& c, const std::vector<ConstantPtr>& actual, const char* which_run) {
  if (actual.size() != c.outputs.size())
    return {{"result", "wrong"},
            {"text", fmt::format("{} outputs instead of {}", actual.size(), c.outputs.size())}};
  for (size_t i = 0; i < actual.size(); ++i) {
    const std::string text = conformance::difference(*actual[i], *c.outputs[i], c.tolerance);
    if (text.empty()) continue;
    Json result = {{"result", "wrong"}, {"text", fmt::format("{}, output {}: {}", which_run, i, text)}};
    if (!(actual[i]->type == c.outputs[i]->type)) return result;
    const auto worst = conformance::worst_element(*actual[i], *c.outputs[i], c.tolerance);
    result["worst"] = {{"output", i},
                       {"index", worst->index},
                       {"expected", fmt::format("{:g}", worst->expected)},
                       {"got", fmt::format("{:g}", worst->actual)},
                       {"allowed", worst->allowed}};
    return result;
  }
  return Json::object();
}

/// The first run goes kernel by kernel, those after it replay what was recorded.
Json execute(const PackedCase& c, const std::vector<std::byte>& module, const std::string& device) {
  Json result = {{"result", "pass"}, {"text", ""}};
  std::unique_ptr<testing::LocalModel> model;
  Clock::time_point start = Clock::now();
  try {
    model = std::make_unique<testing::LocalModel>(module, 2, device);
  } catch (const std::exception& error) {
    throw Failure("failed to load", error.what());
  }
  result["load_ms"] = milliseconds_since(start);
  for (const char* which : {"first run", "second run", "third run"}) {
    start = Clock::now();
    const std::vector<ConstantPtr> outputs = model->run(c.inputs);
    if (!result.contains("run_ms")) result["run_ms"] = milliseconds_since(start);
    result.update(compare(c, outputs, which));
    if (result["result"] != "pass") break;
  }
  return result;
}

int run_case(const std::vector<std::string>& arguments) {
  const std::string &name = arguments[1], &device = arguments[2];
  Json result = {{"case", name}, {"device", device}};
  try {
    const PackedCase c = CasePack::read(arguments[0]).load(name);
    if (!c.is_module && arguments.size() < 5)
      user_error("{} is a model: give a target and the gantry program", name);
    const Clock::time_point start = Clock::now();
    const std::vector<std::byte> module =
        c.is_module ? bytes_of(c.program) : compile(c, arguments[3], arguments[4]);
    if (!c.is_module) result["compile_ms"] = milliseconds_since(start);
    result.update(execute(c, module, device));
  } catch (const Failure& failure) {
    result.update({{"result", failure.result}, {"text", failure.what()}});
  } catch (const std::exception& error) {
    result.update({{"result", "failed"}, {"text", error.what()}});
  }
  print(result);
  return result["result"] == "pass" ? 0 : 1;
}

int list_cases(const std::vector<std::string>& arguments) {
  Json cases = Json::array();
  const CasePack pack = CasePack::read(arguments[0]);
  for (const CasePack::Entry& entry : pack.entries())
    cases.push_back({{"name", entry.name}, {"op", entry.op}});
  print({{"cases", cases}});
  return 0;
}

void check(GantryStatus status) {
  if (status != GANTRY_OK) throw std::runtime_error(gantry_last_error());
}

/// Through the C interface.
int run_module(const std::vector<std::string>& arguments) {
  GantryModule* loaded = nullptr;
  check(gantry_module_load(arguments[0].c_str(), &loaded));
  const std::unique_ptr<GantryModule, decltype(&gantry_module_release)> module(loaded, gantry_module_release);
  GantrySessionOptions options{};
  options.struct_size = sizeof options;
  options.device = arguments[1].c_str();
  GantrySession* created = nullptr;
  check(gantry_session_create(module.get(), &options, &created));
  const std::unique_ptr<GantrySession, decltype(&gantry_session_release)> session(created,
                                                                                  gantry_session_release);
  check(benchmarks::set_zeros(module.get(), session.get()));
  check(gantry_run(session.get()));
  print({{"result", "ran"}});
  return 0;
}

int fault(const std::vector<std::string>& arguments) {
  const Json result = provoke_fault(CasePack::read(arguments[0]), arguments[1]);
  print(result);
  return result["result"] == "pass" ? 0 : 1;
}

struct Mode {
  const char* name;
  size_t least;  ///< arguments
  int (*work)(const std::vector<std::string>&);
};
constexpr Mode kModes[] = {
    {"list", 1, list_cases}, {"run", 3, run_case}, {"module", 2, run_module}, {"fault", 2, fault}};

int dispatch(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  for (const Mode& mode : kModes) {
    if (argc > 1 && mode.name == std::string(argv[1]) && arguments.size() >= mode.least)
      return mode.work(arguments);
  }
  const bool asked = argc == 2 && std::string(argv[1]) == "--help";
  std::fputs(kUsage, asked ? stdout : stderr);
  return asked ? 0 : 1;
}

}  // namespace
}  // namespace gantry::gpu_bundle

int main(int argc, char** argv) {
  try {
    return gantry::gpu_bundle::dispatch(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_case: %s\n", error.what());
    return 1;
  }
}
