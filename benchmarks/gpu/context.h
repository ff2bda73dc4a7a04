// What the sections of a run share.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/gpu/child.h"
#include "benchmarks/gpu/report.h"

namespace gantry::gpu_bundle {

/// What networks are timed beside, where it is there. PyTorch's compiler takes as long as all else together.
constexpr const char* kPeers[] = {"torch", "torch.compile", "onnxruntime"};

struct Options {
  double seconds = 0;
  std::vector<std::string> only;      ///< sections; empty: all
  std::vector<std::string> networks;  ///< empty: all
  std::vector<std::string> settings;  ///< of networks, as "8/fp16"; empty: all
  std::vector<std::string> peers;     ///< of kPeers; empty: all
  std::set<std::pair<std::string, std::string>> passed;  ///< cases, each with its device, that are not run again
  std::filesystem::path out = "gpu-results";
  std::filesystem::path driver;  ///< a libcuda.so to take for the machine's; empty: the system's
  std::filesystem::path bundle;  ///< where bin, cases.pack and the scripts are
};

/// What section 1 finds out and the others need; those that come to run without it find out for themselves.
struct Machine {
  bool asked = false;
  std::string gpu_problem;  ///< why there is no GPU; empty: there is one
  std::string gpu_name;
  int compute_capability = 0;
  std::string architecture;  ///< of targets: "sm_90", the newest that gantry knows and the GPU runs
  int cpus = 1;
  std::string python;            ///< empty: none
  bool has_torch = false;        ///< with a GPU, NumPy, and what it exports with
  bool has_onnxruntime = false;  ///< with its provider for GPUs
};

struct Context {
  Options options;
  Report& report;
  Clock::time_point end;  ///< of the whole run
  std::filesystem::path work;
  std::vector<std::string> environment;
  Machine machine = {};
  Json peaks = Json::object();  ///< of the GPU, once measured

  std::string program(const std::string& name) const { return (options.bundle / "bin" / name).string(); }
  /// A command of a program or tool with the run's environment, that ends by itself before `until`.
  Command command(std::vector<std::string> arguments, double limit_s, Clock::time_point until) const;
  bool has_time(Clock::time_point until, double seconds) const;
  /// Whether what ended just now may have been ended by the section's end rather than by itself.
  static bool is_over(Clock::time_point until);
  /// Fills in `machine` where that has not been done; what it asks has limits of its own, as all else depends
  /// on it.
  void ask_machine();
};

/// HOST:PORT of a `gantry-device serve --listen 127.0.0.1:0`; empty if it does not serve.
std::string address_of(const Server& server);
/// The last line of `text` that is a JSON object; null where there is none.
Json last_object(const std::string& text);
/// The first program of that name in $PATH and `folders`; empty if there is none.
std::string find_program(const std::string& name, const std::vector<std::string>& folders = {});
/// The text on one line, shortened.
std::string one_line(std::string text, size_t most = 200);

/// A part of the run, in steps of which each is bounded. It goes on where it stopped when it is run again; a
/// step that was still working when its time was over is then done again.
class Section {
 public:
  virtual ~Section() = default;
  /// Works until everything is done (true) or no further step fits before `until`.
  virtual bool run(Context& context, Clock::time_point until) = 0;
};

std::unique_ptr<Section> machine_section();
std::unique_ptr<Section> cases_section();
std::unique_ptr<Section> networks_section();
std::unique_ptr<Section> tools_section();

}  // namespace gantry::gpu_bundle
