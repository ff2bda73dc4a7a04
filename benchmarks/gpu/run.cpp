// Runs the bundle: everything that can be told of CUDA on this machine within a time, most important first.
//
//   run SECONDS [--only machine,cases,networks,tools] [--networks NAME,…] [--settings 8/fp16,…]
//       [--peers torch,…] [--skip-passed RESULTS] [--out FOLDER] [--driver LIBCUDA] [--bundle FOLDER]
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "benchmarks/gpu/context.h"
#include "benchmarks/gpu/networks_section.h"

namespace gantry::gpu_bundle {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: run SECONDS [--only SECTION,...] [--networks NAME,...] [--settings BATCH/PRECISION,...]\n"
    "           [--peers PEER,...] [--skip-passed RESULTS] [--out FOLDER] [--driver LIBCUDA] [--bundle "
    "FOLDER]\n"
    "Tries gantry on this machine's GPU for so many seconds; 600 tell most. Results are in FOLDER "
    "(gpu-results):\n"
    "table.md and results.json, whole at any moment.\n"
    "sections, in this order:\n"
    "  machine   what it is; a first kernel; a fault that must name its kernel\n"
    "  cases     ONNX's conformance cases on the GPU, beside the emulated GPU\n"
    "  networks  ten networks: error, times, memory, slowest kernels; PyTorch and ONNX Runtime where they "
    "are\n"
    "  tools     compute-sanitizer over the cases, ncu over the slowest kernels, where they are installed\n"
    "--networks, --settings (8/fp16) and --peers (torch, torch.compile, which is slow to start, onnxruntime) "
    "leave "
    "the\n"
    "others out of the section networks.\n"
    "--skip-passed, again for several: cases that passed in a former run, whose results.json this is, are "
    "not "
    "run again.\n"
    "--driver takes another libcuda.so.1 than the system's, --bundle another folder than the program's for "
    "bin,\n"
    "cases.pack and scripts. README says more.\n";

struct Part {
  const char *name, *title;
  double until;  ///< share of the whole time at which it gives way to the next
  std::unique_ptr<Section> (*make)();
};

constexpr Part kParts[] = {
    {"machine", "The machine, a first kernel, a fault", 0.15, machine_section},
    {"cases", "Conformance cases", 0.45, cases_section},
    {"networks", "Networks", 0.90, networks_section},
    {"tools", "compute-sanitizer and ncu", 1.0, tools_section},
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

/// The folder of this program.
fs::path own_folder() {
  std::error_code code;
  return fs::read_symlink("/proc/self/exe", code).parent_path();
}

/// Cases, each with its device, that passed in the run whose results.json this is. Throws std::invalid_argument where
/// it is none.
std::set<std::pair<std::string, std::string>> passed_in(const fs::path& results) {
  std::set<std::pair<std::string, std::string>> passed;
  std::ifstream file(results);
  try {
    const Json document = Json::parse(file);
    for (const Json& section : document.at("sections")) {
      if (section.at("name") != "cases") continue;
      for (const Json& row : section.at("rows")) {
        for (const auto& [device, said] : row.items()) {
          if (said.is_object() && said.value("result", "") == "pass") passed.insert({row.at("name"), device});
        }
      }
    }
  } catch (const Json::exception& error) {
    throw std::invalid_argument(results.string() + " is no results.json of a run: " + error.what());
  }
  return passed;
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  options.bundle = own_folder();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--")) {
      char* end = nullptr;
      options.seconds = std::strtod(argument.c_str(), &end);
      if (*end != '\0' || !(options.seconds > 0))
        throw std::invalid_argument(argument + " is no number of seconds");
      continue;
    }
    if (i + 1 == arguments.size()) throw std::invalid_argument(argument + " lacks its value");
    const std::string& value = arguments[++i];
    if (argument == "--only")
      options.only = split(value);
    else if (argument == "--networks")
      options.networks = split(value);
    else if (argument == "--settings")
      options.settings = split(value);
    else if (argument == "--peers")
      options.peers = split(value);
    else if (argument == "--skip-passed")
      options.passed.merge(passed_in(value));
    else if (argument == "--out")
      options.out = value;
    else if (argument == "--driver")
      options.driver = fs::absolute(value);
    else if (argument == "--bundle")
      options.bundle = fs::absolute(value);
    else
      throw std::invalid_argument("unknown option " + argument);
  }
  if (options.seconds == 0) throw std::invalid_argument("give a number of seconds");
  for (const std::string& name : options.only) {
    if (std::none_of(std::begin(kParts), std::end(kParts),
                     [&](const Part& part) { return name == part.name; }))
      throw std::invalid_argument("there is no section " + name);
  }
  for (const std::string& name : options.networks) {
    if (std::none_of(networks().begin(), networks().end(),
                     [&](const Network& network) { return name == network.name; }))
      throw std::invalid_argument("there is no network " + name);
  }
  for (const std::string& name : options.settings) {
    if (std::none_of(settings().begin(), settings().end(),
                     [&](const Setting& setting) { return name == setting_name(setting); }))
      throw std::invalid_argument("there is no setting " + name);
  }
  for (const std::string& name : options.peers) {
    if (std::find(std::begin(kPeers), std::end(kPeers), name) == std::end(kPeers))
      throw std::invalid_argument("there is no peer " + name);
  }
  if (!options.driver.empty() && !fs::exists(options.driver))
    throw std::invalid_argument(options.driver.string() + " does not exist");
  return options;
}

/// A folder in which the driver to take has the name by which programs look for it.
void add_driver(const Options& options, Context& context) {
  if (options.driver.empty()) return;
  const fs::path folder = context.work / "driver";
  fs::create_directories(folder);
  fs::remove(folder / "libcuda.so.1");
  fs::create_symlink(options.driver, folder / "libcuda.so.1");
  const char* others = std::getenv("LD_LIBRARY_PATH");
  context.environment.push_back("LD_LIBRARY_PATH=" + folder.string() +
                                (others == nullptr || *others == '\0' ? "" : std::string(":") + others));
}

bool is_selected(const Options& options, const Part& part) {
  return options.only.empty() ||
         std::find(options.only.begin(), options.only.end(), part.name) != options.only.end();
}

/// Works until `until`. A step that throws is a failed row; the section goes on with its next one. Whether
/// all is done.
bool work_on(Section& section, const char* name, Context& context, Clock::time_point until) {
  constexpr int kMostFailures = 100;
  for (int failures = 1; failures <= kMostFailures; ++failures) {
    try {
      return section.run(context, until);
    } catch (const std::exception& error) {
      context.report.row(name, fmt::format("a step that failed ({})", failures),
                         {{"result", "failed"}, {"text", error.what()}}, error.what());
    }
  }
  return false;
}

/// Sections in their order, each up to its share; what is left of the time goes to what was not finished.
void run_sections(Context& context, Clock::time_point start) {
  struct Open {
    const Part* part;
    std::unique_ptr<Section> section;
  };
  std::vector<Open> open;
  for (const Part& part : kParts) {
    context.report.add_section(part.name, part.title,
                               is_selected(context.options, part) ? "not reached" : "not selected");
    if (is_selected(context.options, part)) open.push_back({&part, part.make()});
  }
  context.report.write();
  const double last_share = open.back().part->until;
  for (int round = 0; round < 2 && !open.empty(); ++round) {
    for (Open& entry : open) {
      const double share = round == 0 ? entry.part->until / last_share : 1;
      const auto until = start + std::chrono::duration_cast<Clock::duration>(share * (context.end - start));
      if (!context.has_time(until, 1)) continue;
      context.report.set_state(entry.part->name, "running");
      const bool finished = work_on(*entry.section, entry.part->name, context, until);
      context.report.set_state(entry.part->name, finished ? "done" : "cut off");
      if (finished) entry.section.reset();
    }
    std::erase_if(open, [](const Open& entry) { return entry.section == nullptr; });
  }
}

int run_bundle(const Options& options, const std::vector<std::string>& command) {
  const Clock::time_point start = Clock::now();
  watch_signals();
  Report report(fs::absolute(options.out), options.seconds, command);
  // The last of the time is for ending what runs, and for the files.
  const double reserve = std::min(6.0, options.seconds / 10);
  Context context{options, report,
                  start + std::chrono::duration_cast<Clock::duration>(Seconds(options.seconds - reserve)),
                  report.folder() / "work"};
  fs::remove_all(context.work);  // a former run's modules are not this gantry's
  fs::create_directories(context.work);
  context.environment = {"XDG_CACHE_HOME=" + (context.work / "cache").string(),
                         "CUDA_CACHE_PATH=" + (context.work / "nv").string(), "PYTHONUNBUFFERED=1",
                         "TMPDIR=" + context.work.string()};
  add_driver(options, context);
  run_sections(context, start);
  const int signal = stop_signal();
  report.finish(signal == 0 ? "done" : std::string("stopped by ") + ::strsignal(signal));
  report.print("results are in " + report.folder().string());
  return signal == 0 ? 0 : 128 + signal;
}

}  // namespace
}  // namespace gantry::gpu_bundle

int main(int argc, char** argv) {
  const std::vector<std::string> command(argv, argv + argc), arguments(argv + 1, argv + argc);
  if (argc == 1 || arguments[0] == "--help" || arguments[0] == "-h") {
    std::fputs(gantry::gpu_bundle::kUsage, argc == 1 ? stderr : stdout);
    return argc == 1 ? 1 : 0;
  }
  try {
    return gantry::gpu_bundle::run_bundle(gantry::gpu_bundle::parse(arguments), command);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "run: %s\n%s", error.what(), gantry::gpu_bundle::kUsage);
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run: %s\n", error.what());
    return 1;
  }
}
