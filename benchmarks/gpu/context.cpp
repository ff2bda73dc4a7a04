#include "benchmarks/gpu/context.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace gantry::gpu_bundle {
namespace {

/// The compute capability that a name of an architecture ends in; 0 for none.
int capability_of(const std::string& target) {
  const size_t at = target.rfind("sm_");
  return at == std::string::npos ? 0 : std::atoi(target.c_str() + at + 3);
}

/// The newest architecture that gantry knows and the GPU runs.
std::string architecture_for(const Context& context, int capability, Clock::time_point until) {
  const Outcome listed = run(context.command({context.program("gantry"), "targets", "--json"}, 10, until));
  int best = 0;
  const Json targets = Json::parse(listed.output, nullptr, false);
  for (const Json& target : targets.is_array() ? targets : Json::array()) {
    const std::string name = target.value("name", "");
    if (!name.starts_with("cuda:")) continue;
    if (const int known = capability_of(name); known <= capability) best = std::max(best, known);
  }
  return "sm_" + std::to_string(best == 0 ? capability : best);
}

constexpr const char* kPythonPackages = R"(
import importlib, json, sys
found = {'python': sys.version.split()[0]}
for name in ('torch', 'torchvision', 'onnx', 'onnxruntime', 'numpy', 'triton'):
    try:
        found[name] = importlib.import_module(name).__version__
    except Exception as error:
        found[name] = None
try:
    import onnxruntime
    found['onnxruntime_cuda'] = 'CUDAExecutionProvider' in onnxruntime.get_available_providers()
except Exception:
    found['onnxruntime_cuda'] = False
try:
    import torch
    found['torch_cuda'] = torch.cuda.is_available()
except Exception:
    found['torch_cuda'] = False
print(json.dumps(found))
)";

Json python_packages(Context& context, Clock::time_point until) {
  context.machine.python = find_program("python3");
  if (context.machine.python.empty()) return {{"python", nullptr}};
  const Outcome asked = run(context.command({context.machine.python, "-c", kPythonPackages}, 60, until));
  Json packages = last_object(asked.output);
  if (packages.is_null()) return {{"python", nullptr}, {"problem", asked.why()}};
  const auto usable = [&](const char* name, const char* cuda) {
    return packages.value(name, Json()).is_string() && packages.value(cuda, false);
  };
  const auto is_installed = [&](const char* name) { return packages.value(name, Json()).is_string(); };
  context.machine.has_torch = usable("torch", "torch_cuda") && is_installed("numpy") &&
                              is_installed("torchvision") && is_installed("onnx");
  context.machine.has_onnxruntime = usable("onnxruntime", "onnxruntime_cuda");
  return packages;
}

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

}  // namespace

Command Context::command(std::vector<std::string> arguments, double limit_s, Clock::time_point until) const {
  const double left = Seconds(until - Clock::now()).count();
  return {std::move(arguments), environment, Seconds(std::clamp(left, 0.5, limit_s))};
}

bool Context::has_time(Clock::time_point until, double seconds) const {
  return stop_signal() == 0 && Seconds(until - Clock::now()).count() >= seconds;
}

bool Context::is_over(Clock::time_point until) {
  return Clock::now() + std::chrono::milliseconds(100) >= until;
}

void Context::ask_machine() {
  if (machine.asked) return;
  machine.asked = true;
  machine.cpus = usable_cpus();
  Json facts;
  const Outcome info = gpu_bundle::run(command({program("gantry-device"), "info", "--json"}, 40, end));
  facts["board"] = last_object(info.output);
  const Json gpus = facts["board"].is_object() ? facts["board"].value("gpus", Json::array()) : Json::array();
  if (!gpus.empty()) {
    machine.gpu_name = gpus[0].value("name", "");
    machine.compute_capability = gpus[0].value("compute_capability", 0);
    machine.architecture = architecture_for(*this, machine.compute_capability, end);
    facts["architecture"] = machine.architecture;
  } else {
    machine.gpu_problem = facts["board"].is_object() ? facts["board"].value("gpu_problem", "it names none")
                                                     : "gantry-device info: " + info.why();
  }
  facts["python"] = python_packages(*this, end);
  const std::vector<std::string> toolkit = {"/usr/local/cuda/bin"};
  for (const char* tool : {"ptxas", "nvcc", "compute-sanitizer", "ncu", "nvidia-smi"}) {
    const std::string path = find_program(tool, toolkit);
    facts["tools"][tool] = path.empty() ? Json() : Json(path);
  }
  report.facts("machine") = facts;
}

std::string address_of(const Server& server) {
  const std::string& line = server.first_line();
  const size_t at = line.find("127.0.0.1:");
  return at == std::string::npos ? "" : line.substr(at, line.find_first_of(" ,", at) - at);
}

Json last_object(const std::string& text) {
  Json last;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('{')) continue;
    Json parsed = Json::parse(line, nullptr, false);
    if (parsed.is_object()) last = std::move(parsed);
  }
  return last;
}

std::string find_program(const std::string& name, const std::vector<std::string>& folders) {
  const char* path = std::getenv("PATH");
  std::vector<std::string> all;
  std::istringstream entries(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string entry; std::getline(entries, entry, ':');) all.push_back(entry);
  all.insert(all.end(), folders.begin(), folders.end());
  for (const std::string& folder : all) {
    const std::string candidate = folder + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::string one_line(std::string text, size_t most) {
  for (char& c : text) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most) + "…";
}

}  // namespace gantry::gpu_bundle
