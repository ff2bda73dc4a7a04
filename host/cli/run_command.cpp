#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "host/cli/between.h"
#include "host/cli/command_traces.h"
#include "host/cli/commands.h"
#include "host/cli/execution.h"
#include "host/cli/expectation.h"
#include "host/cli/json_values.h"
#include "host/cli/npz.h"
#include "host/cli/tensor_files.h"
#include "host/cli/tensor_output.h"
#include "host/cli/text.h"
#include "host/cli/trace_file.h"
#include "host/support/error.h"
#include "rpc/visible_text.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry run resnet18.onnx --input cat.npy --output scores.npy
  gantry run resnet18.gmod --input input=cat.npy --output logits=scores.npy --on pi
  gantry run bert.onnx --random --shape input_ids=1x128      made-up data
  gantry run resnet18.onnx --random=7 --on 127.0.0.1:7453 --key board.key
  gantry run resnet18.onnx --input cat.npy --expect scores.npy --tolerance 1e-4      does the board agree?
  gantry run resnet18.onnx --input cat.jpg --preprocess imagenet
  gantry run resnet18.onnx --input cat.npy --output scores.pb        as one of ONNX's tensors
  gantry run bert.onnx --input all.npz --output answers.npz  arrays by the names of inputs and outputs
  gantry run bert.onnx --input input_ids=all.npz:arr_0       one array of an archive
  gantry run model.onnx --input test_data_set_0 --expect test_data_set_0     the data beside an ONNX model
docs/cli.md says which files are read, and what a --preprocess file holds.)";

struct Options {
  ExecutionOptions execution;
  std::vector<std::string> outputs;
  std::vector<std::string> expected;
  double tolerance = 1e-5;
  std::string seed, trace;
  bool json = false;
  bool force = false;
};

/// JSON has no infinities: they become strings.
nlohmann::ordered_json number_json(double value) {
  if (std::isfinite(value)) return value;
  return fmt::format("{}", value);
}

/// As many as are shown of numbers.
std::vector<std::string_view> first_texts(const HostTensor& tensor) {
  constexpr size_t kShown = 8;
  std::vector<std::string_view> texts = texts_of(tensor);
  texts.resize(std::min(texts.size(), kShown));
  return texts;
}

/// Without such an element there is no smallest one, no largest and no mean.
bool has_finite(const HostTensor& tensor, const TensorSummary& summary) {
  return element_count(tensor.shape) > static_cast<int64_t>(summary.non_finite);
}

nlohmann::ordered_json output_json(const std::string& name, const HostTensor& tensor,
                                   const std::string& file) {
  nlohmann::ordered_json json;
  json["name"] = name;
  json["dtype"] = type_name(tensor.type);
  json["shape"] = tensor.shape;
  if (is_string(tensor.type)) {
    json["first"] = nlohmann::ordered_json::array();
    for (const std::string_view text : first_texts(tensor)) json["first"].push_back(text);
    if (!file.empty()) json["file"] = file;
    return json;
  }
  const TensorSummary summary = summarise(tensor);
  const auto of_finite = [any = has_finite(tensor, summary)](double value) {
    return any ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  json["min"] = of_finite(summary.min);
  json["max"] = of_finite(summary.max);
  json["mean"] = of_finite(summary.mean);
  json["non_finite"] = summary.non_finite;
  json["first"] = nlohmann::ordered_json::array();
  for (double value : summary.first) json["first"].push_back(number_json(value));
  if (!file.empty()) json["file"] = file;
  return json;
}

/// What is in front of the file's name, of strings.
std::string text_lines(const std::string& name, const HostTensor& tensor) {
  constexpr size_t kShownOfEach = 60;
  std::string text = fmt::format("{}: {}\n  [", name, type_and_shape(tensor.type, tensor.shape));
  const std::vector<std::string_view> first = first_texts(tensor);
  for (size_t i = 0; i < first.size(); ++i) {
    const std::string shown =
        rpc::visible_text(std::string(first[i].substr(0, kShownOfEach)), rpc::Lines::kOne);
    text += fmt::format("{}\"{}{}\"", i == 0 ? "" : ", ", shown, first[i].size() > kShownOfEach ? "…" : "");
  }
  return text + (element_count(tensor.shape) > static_cast<int64_t>(first.size()) ? ", …]\n" : "]\n");
}

std::string output_text(const std::string& name, const HostTensor& tensor, const std::string& file) {
  if (is_string(tensor.type))
    return text_lines(name, tensor) + (file.empty() ? "" : fmt::format("  saved to {}\n", file));
  const TensorSummary summary = summarise(tensor);
  std::string text = fmt::format("{}: {}\n", name, type_and_shape(tensor.type, tensor.shape));
  if (has_finite(tensor, summary)) {
    text += fmt::format("  min {:.6g}, max {:.6g}, mean {:.6g}", summary.min, summary.max, summary.mean);
    if (summary.non_finite > 0) text += fmt::format(", {} not finite", summary.non_finite);
  } else {
    text += summary.non_finite > 0 ? "  nothing finite" : "  empty";
  }
  text += "\n  [";
  for (size_t i = 0; i < summary.first.size(); ++i)
    text += fmt::format("{}{:.6g}", i == 0 ? "" : ", ", summary.first[i]);
  const bool more = element_count(tensor.shape) > static_cast<int64_t>(summary.first.size());
  text += more ? ", …]\n" : "]\n";
  if (!file.empty()) text += fmt::format("  saved to {}\n", file);
  return text;
}

/// Where outputs go: each to a file of its own, or all of them to one archive.
struct OutputFiles {
  std::vector<std::string> files;  ///< empty: not saved on its own
  std::string archive;             ///< .npz; empty: none
};

bool is_archive_of_all(const std::string& argument) {
  return argument.ends_with(".npz") && argument.find('=') == std::string::npos;
}

OutputFiles output_files(const std::vector<rpc::TensorDescription>& outputs,
                         const std::vector<std::string>& arguments) {
  OutputFiles result;
  std::vector<std::string> single;
  for (const std::string& argument : arguments) {
    if (!is_archive_of_all(argument)) {
      single.push_back(argument);
    } else if (result.archive.empty()) {
      result.archive = argument;
    } else {
      user_error("--output {}: all outputs go to {} already", argument, result.archive);
    }
  }
  result.files = assign_outputs(outputs, single);
  return result;
}

void save_archive(const std::string& path, const std::vector<rpc::TensorDescription>& outputs,
                  const std::vector<HostTensor>& tensors) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < outputs.size(); ++i) named.push_back({outputs[i].name, &tensors[i]});
  write_npz(path, named);
}

void plan_files(const Options& options, OutputPlan& plan) {
  if (options.json) plan.reports("--json");
  for (const std::string& argument : options.expected) {
    for (const std::filesystem::path& file : files_of_argument(argument)) plan.reads(file, "the reference");
  }
  for (const std::string& argument : options.outputs) {
    const std::string file = split_output(argument).value;
    if (file.empty()) continue;  // assign_outputs says so
    const FileKind kind = kind_of_output(file);
    if (kind == FileKind::kArchive) expect_npz_support(file);
    plan.writes(file, kind, "--output", options.force);
  }
}

rpc::RunTime timed_run(Execution& execution) {
  TimedSpan span(execution.spans.get(), "machine", "run");
  const rpc::RunTime time = execution.machine->run();
  span.say("there, ms", static_cast<double>(time.run.count()) / 1e6);
  return time;
}

/// What becomes of the outputs: they are saved, compared with their references, and told of. What cannot be
/// written is thrown by the caller, after the results, which took longer.
class Results {
 public:
  /// Reads the references, before anything runs, so that a wrong name fails at once.
  Results(const Options& options, const std::vector<rpc::TensorDescription>& outputs)
      : options_(options),
        outputs_(outputs),
        places_(output_files(outputs, options.outputs)),
        references_(read_tensor_files(outputs, options.expected,
                                      {.name = "--expect", .kind = "output", .exact_type = false})) {}

  /// Of all outputs, in their order.
  void take(size_t i, HostTensor tensor) {
    std::string saved_to = places_.files[i];
    try {
      if (!saved_to.empty()) write_output(saved_to, outputs_[i].name, tensor);
    } catch (const Error& error) {
      if (!unwritten_) unwritten_ = error;
      saved_to.clear();
    }
    if (saved_to.empty()) saved_to = places_.archive;
    if (options_.json) {
      json_.push_back(output_json(outputs_[i].name, tensor, saved_to));
    } else {
      text_ += output_text(outputs_[i].name, tensor, saved_to);
    }
    if (references_[i]) compare(i, tensor);
    if (!places_.archive.empty()) archived_.push_back(std::move(tensor));
  }

  void close() {
    try {
      if (!places_.archive.empty()) save_archive(places_.archive, outputs_, archived_);
    } catch (const Error& error) {
      if (!unwritten_) unwritten_ = error;
    }
  }

  const nlohmann::ordered_json& json() const { return json_; }
  const std::string& text() const { return text_; }
  bool agree() const { return agree_; }
  const std::optional<Error>& unwritten() const { return unwritten_; }

 private:
  void compare(size_t i, const HostTensor& tensor) {
    const auto& [reference, source] = *references_[i];
    const Deviation deviation = compare_tensors(tensor, reference, outputs_[i].name, source);
    const bool within = deviation.within(options_.tolerance);
    agree_ = agree_ && within;
    if (options_.json) {
      json_.back()["deviation"] = number_json(deviation.relative);
      json_.back()["agrees"] = within;
    } else {
      text_ += fmt::format("  {} {}: max |difference| / max |expected| = {:.3g} (at most {:g})\n",
                           within ? "agrees with" : "DIFFERS from", source, deviation.relative,
                           options_.tolerance);
    }
  }

  const Options& options_;
  const std::vector<rpc::TensorDescription>& outputs_;
  const OutputFiles places_;
  const std::vector<std::optional<FileTensor>> references_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
  std::string text_;
  std::vector<HostTensor> archived_;
  bool agree_ = true;
  std::optional<Error> unwritten_;
};

int run(const Options& options, const Invocation& invocation) {
  if (options.expected.empty()) {
    refuse(options.execution.given, {"--tolerance"}, "without --expect nothing is compared with a reference");
  }
  plan_files(options, *invocation.outputs);
  Execution execution = prepare_execution(options.execution, invocation);
  const auto& loaded = execution.loaded;
  Results results(options, loaded.outputs);
  Progress progress(invocation.verbosity());
  progress.update("running on " + execution.machine->label(), -1);
  const double milliseconds = static_cast<double>(timed_run(execution).run.count()) / 1e6;
  const ProgramChoice program = program_that_runs(execution, options.execution);
  for (size_t i = 0; i < loaded.outputs.size(); ++i)
    results.take(i, execution.machine->output(static_cast<int>(i)));
  results.close();
  progress.clear();
  if (options.json) {
    nlohmann::ordered_json json;
    json["machine"] = execution.machine->label();
    json["target"] = loaded.target;
    json["specialized"] = said(program.sizes);
    json["specializations"] = program.specialized;
    json["milliseconds"] = milliseconds;
    json["outputs"] = results.json();
    print_out(document_text(json));
  } else {
    const std::string which = visible_line(program_text(program));
    print_about(*invocation.outputs,
                results.text() +
                    fmt::format("on {} with {} code{}{}: first run {}; `gantry bench` times properly\n",
                                execution.machine->label(), loaded.target,
                                which.empty() ? "" : ", the program ", which, duration_text(milliseconds)));
  }
  if (!options.trace.empty())
    write_trace(run_trace(options.execution, execution, invocation), options.trace,
                expect_trace_format(options.trace, "--trace"));
  if (results.unwritten()) throw Error(*results.unwritten());
  if (!results.agree())
    user_error("an output differs from its reference by more than {:g} (--tolerance takes another bound)",
               options.tolerance);
  return 0;
}

uint64_t parse_seed(const std::string& text) {
  uint64_t seed = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || stop != text.data() + text.size()) {
    user_error("--random={}: the seed is a whole number", text);
  }
  return seed;
}

}  // namespace

void add_run_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Run a model or module once and show its outputs");
  add_execution_options(*command, options->execution);
  command
      ->add_option("-o,--output", options->outputs,
                   "Saves an output as NumPy's array where FILE ends in .npy, as ONNX's tensor where it ends "
                   "in .pb; NAME= may be left out if there is one. FILE.npz takes all outputs")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--expect", options->expected,
          "Compares an output with a reference, of the kinds that --input takes but images; exit code 1 if "
          "they differ too much")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  command
      ->add_option("--tolerance", options->tolerance,
                   "Largest max |difference| / max |expected| that --expect accepts; default 1e-5")
      ->type_name("NUMBER")
      ->check(between(0.0, 1e30));
  command->add_flag("--random{0}", options->seed, "Made-up data for inputs without a file, from this seed")
      ->type_name("[=SEED]");
  add_trace_option(*command, options->trace, "what gantry does, and the kernels of a further run,");
  command->add_flag("--json", options->json, "Report as JSON on stdout");
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] {
      if (!options->seed.empty()) options->execution.seed = parse_seed(options->seed);
      begin_trace(options->trace, options->force, invocation);
      return run(*options, invocation);
    };
  });
}

}  // namespace gantry::cli
