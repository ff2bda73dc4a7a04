#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "host/cli/between.h"
#include "host/cli/commands.h"
#include "host/cli/conformance_report.h"
#include "host/cli/conformance_way.h"
#include "host/cli/execution.h"
#include "host/cli/refusal.h"
#include "host/conformance/child_messages.h"
#include "host/conformance/found_tests.h"
#include "host/conformance/record.h"
#include "host/support/error.h"
#include "host/support/program.h"
#include "host/support/words.h"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;
using conformance::FoundTest;
using conformance::RunRecord;
using conformance::TestResult;

constexpr const char* kExamples = R"(Examples:
  gantry conformance /usr/share/libonnx-testdata/data/simple
  gantry conformance /usr/share/libonnx-testdata/data/node --filter conv --json conv.json
  gantry conformance /usr/share/libonnx-testdata/data --json all.json --resume   goes on where it was interrupted
  gantry conformance /usr/share/libonnx-testdata/data --filter 'test_gru_*' --device cuda-emulated
  gantry conformance /usr/share/libonnx-testdata/data --filter conv --target cortex-a76    under qemu-user
A test is a folder with model.onnx and test_data_set_0/input_0.pb, output_0.pb, …, as ONNX's backend tests are; each runs
in a process of its own. Exit codes: 0 all pass, 1 some do not, 2 the board failed.)";

constexpr int kMostJobs = 256;
/// A test's process ends itself when its time is up; one that does not is killed after so much more.
constexpr std::chrono::seconds kGrace{10};

struct Options {
  std::vector<std::string> folders, filters;
  ConformanceWay way;
  int jobs = 0;
  std::string json;
  bool resume = false;
  bool force = false;
  GivenOptions given;
};

bool is_wanted(const std::string& name, const std::vector<std::string>& filters) {
  return filters.empty() || std::ranges::any_of(filters, [&](const std::string& filter) {
           return conformance::is_like(name, filter);
         });
}

std::vector<FoundTest> wanted_tests(const Options& options, const Invocation& invocation) {
  std::vector<fs::path> folders(options.folders.begin(), options.folders.end());
  std::vector<FoundTest> tests =
      conformance::find_tests(folders, [&](const std::string& message) { invocation.warn(message); });
  const size_t found = tests.size();
  std::erase_if(tests, [&](const FoundTest& test) { return !is_wanted(test.name, options.filters); });
  if (tests.empty()) user_error("none of the {} tests has a name that --filter lets through", found);
  return tests;
}

conformance::RunSettings settings_of(const Options& options) {
  const ConformancePlace place = open_place(options.way);  // what is missing is said before the first test
  conformance::RunSettings settings;
  settings.gantry = version_text();
  settings.gantry.resize(std::min(settings.gantry.find('\n'), settings.gantry.size()));
  settings.target = place.target.name;
  settings.device = place.device;
  settings.board = options.way.board;
  settings.opt_level = options.way.opt_level;
  settings.precision = options.way.precision;
  settings.timeout_seconds = options.way.timeout_seconds;
  return settings;
}

/// The one path of a folder, however it is spelt.
fs::path place_of(const fs::path& folder) {
  std::error_code code;
  const fs::path place = fs::weakly_canonical(folder, code);
  return code ? folder : place;
}

/// Takes the results of an earlier run, all of which have to be of these tests: others would be lost, which
/// is a user error.
void take_earlier(const Options& options, const std::vector<FoundTest>& tests, RunRecord& record) {
  std::error_code code;
  if (!options.resume || !fs::exists(options.json, code) || fs::file_size(options.json, code) == 0) return;
  RunRecord earlier = conformance::read_record(options.json);
  const std::string difference = conformance::settings_difference(earlier.settings, record.settings);
  if (!difference.empty())
    user_error("--resume: {} is of another run ({}); give another --json FILE", options.json, difference);
  std::map<std::string, fs::path> folders;
  for (const FoundTest& test : tests) folders[test.name] = test.folder;
  std::vector<std::string> left_out;
  for (TestResult& result : earlier.results) {
    const auto found = folders.find(result.name);
    if (found == folders.end() || place_of(found->second) != place_of(result.folder)) {
      left_out.push_back(result.folder);
      continue;
    }
    result.folder = found->second.string();
    record.results.push_back(std::move(result));
  }
  if (left_out.empty()) return;
  user_error(
      "--resume: {} has results of {} that these folders and filters leave out, which would be lost ({}{}); "
      "give those, or another --json FILE",
      options.json, counted(left_out.size(), "test"), left_out.front(), left_out.size() > 1 ? ", …" : "");
}

/// The test, without what becomes of it.
TestResult described(const FoundTest& test) {
  TestResult result;
  result.name = test.name;
  result.folder = test.folder.string();
  result.operator_name = "none";
  try {
    const conformance::TestModel model = conformance::read_test_model(test.folder / "model.onnx");
    result.operator_name = model.operator_name;
    result.opset = model.opset;
  } catch (const Error&) {  // its own process says so
  }
  return result;
}

void add_result(RunRecord& record, TestResult result) {
  const auto place = std::ranges::lower_bound(record.results, result.name, {}, &TestResult::name);
  record.results.insert(place, std::move(result));
}

std::vector<std::string> command_of(const FoundTest& test, const Options& options) {
  std::vector<std::string> words = own_command();
  words.insert(words.end(), {kConformanceTestCommand, test.folder.string()});
  const std::vector<std::string> way = way_arguments(options.way);
  words.insert(words.end(), way.begin(), way.end());
  return words;
}

void run_tests(const Options& options, const std::vector<FoundTest>& tests, RunRecord& record,
               conformance::RecordFile& file, const Invocation& invocation) {
  std::set<std::string> finished;
  for (const TestResult& result : record.results) finished.insert(result.name);
  std::vector<FoundTest> left;
  for (const FoundTest& test : tests) {
    if (!finished.contains(test.name)) left.push_back(test);
  }
  if (!finished.empty())
    invocation.note(fmt::format("{} of {} tests have results in {} already", finished.size(), tests.size(),
                                options.json));
  file.update(record);
  Progress progress(invocation.verbosity());
  const auto ended = [&](size_t index, const conformance::ChildEnd& end) {
    auto result = conformance::judge(end, described(left[index]));
    if (!result) {
      file.write(record);
      board_error("{}{}", end.words, file.is_kept() ? "\n--resume goes on from here" : "");
    }
    if (invocation.verbose) {
      progress.clear();
      print_about(*invocation.outputs, test_line(*result));
    }
    add_result(record, std::move(*result));
    file.update(record);
    const auto done = static_cast<double>(record.results.size()), all = static_cast<double>(tests.size());
    progress.update(fmt::format("{} of {}: {}", record.results.size(), tests.size(), sum_text(record)),
                    done / all);
  };
  const std::chrono::duration<double> limit(options.way.timeout_seconds);
  conformance::run_in_children(
      left.size(), static_cast<size_t>(options.jobs),
      std::chrono::duration_cast<std::chrono::milliseconds>(limit) + kGrace,
      [&](size_t index) { return command_of(left[index], options); }, ended);
  file.write(record);
}

int run(const Options& options, const Invocation& invocation) {
  plan_board(options.way.board, options.way.key, *invocation.outputs);
  if (!options.json.empty())
    invocation.outputs->writes(options.json, FileKind::kConformance, "--json", options.force);
  conformance::RecordFile file(options.json);
  if (!file.is_kept())
    refuse(options.given, {"--resume"},
           options.json.empty() ? "without --json FILE there is no record of finished tests"
                                : options.json + ": is no file, which would keep a record of finished tests");
  const std::vector<FoundTest> tests = wanted_tests(options, invocation);
  RunRecord record;
  record.settings = settings_of(options);
  record.folders = options.folders;
  record.filters = options.filters;
  record.tests_found = static_cast<int64_t>(tests.size());
  take_earlier(options, tests, record);
  run_tests(options, tests, record, file, invocation);
  print_about(*invocation.outputs, conformance_text(record));
  const bool all_pass = std::ranges::all_of(record.results, &TestResult::passed);
  return all_pass ? 0 : static_cast<int>(ErrorKind::kUser);
}

}  // namespace

void add_conformance_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("conformance", "Run ONNX's backend tests and say which of them pass");
  command
      ->add_option(
          "DIR", options->folders,
          "Folders with tests, at any depth; where several have a test of the same name the last counts")
      ->required();
  command
      ->add_option("--filter", options->filters,
                   "Only tests with this in their names, or, with * or ?, whose names are like it; several: "
                   "any of them")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command->add_option("-j,--jobs", options->jobs, "Tests at a time; default: one a CPU, on a board 1")
      ->type_name("N")
      ->check(between(1, kMostJobs));
  command
      ->add_option("--json", options->json, "Write what became of each test, kept up to date while they run")
      ->type_name("FILE");
  command->add_flag("--resume", options->resume,
                    "Go on: tests with a result in --json FILE do not run again");
  add_way_options(*command, options->way);
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, command, &invocation] {
    options->given = given_options(*command);
    invocation.action = [options, &invocation] {
      const int cpus = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
      if (options->jobs == 0) options->jobs = options->way.board.empty() ? cpus : 1;
      return run(*options, invocation);
    };
  });
}

}  // namespace gantry::cli
