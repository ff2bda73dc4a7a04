#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "host/cli/between.h"
#include "host/cli/commands.h"
#include "host/cli/json_values.h"
#include "host/cli/refusal.h"
#include "host/cli/text.h"
#include "host/support/error.h"
#include "host/zoo/zoo.h"

namespace gantry::cli {
namespace {

/// Of a batch or a size; each network has a lower limit of its own.
constexpr int64_t kMostOfZoo = 1 << 20;

constexpr const char* kExamples = R"(Examples:
  gantry zoo --list
  gantry zoo resnet18 -o resnet18.onnx
  gantry zoo mobilenet_v2 -o small.onnx --size 96 --batch 4
  gantry zoo bert_base -o bert.onnx --dynamic    symbolic batch and sequence length
The weights are random, but the same for the same seed on every machine: for timing and for comparing machines.)";

struct Options {
  std::string name, output;
  ZooOptions zoo;
  bool list = false;
  bool json = false;
  bool force = false;
  GivenOptions given;
};

/// User errors for options that others leave nothing to do.
void check_options(const Options& options) {
  if (options.list) {
    refuse(options.given, {"--output", "--seed", "--batch", "--size", "--dynamic"},
           "--list lists the networks and writes none");
    if (!options.name.empty()) user_error("--list lists all networks; leave out '{}'", options.name);
  }
  if (options.zoo.dynamic) {
    refuse(options.given, {"--batch"},
           "--dynamic leaves the batch symbolic; `gantry … --shape` gives it a size");
  }
}

int list_networks(bool json) {
  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const ZooNetwork& network : zoo_networks()) {
      list.push_back({{"name", network.name}, {"description", network.description}, {"size", network.size}});
    }
    print_out(document_text(list));
    return 0;
  }
  Table table({{"network", Table::Align::kLeft},
               {"size", Table::Align::kRight},
               {"what it is", Table::Align::kLeft}});
  for (const ZooNetwork& network : zoo_networks()) {
    table.row({network.name, std::to_string(network.size), network.description});
  }
  print_out(table.str(0, terminal_width()));
  return 0;
}

int write_network(const Options& options, const Invocation& invocation) {
  const std::string path = options.output.empty() ? options.name + ".onnx" : options.output;
  if (options.json) invocation.outputs->reports("--json");
  invocation.outputs->writes(path, FileKind::kZooModel, options.output.empty() ? "" : "-o", options.force);
  uint64_t size = 0;
  {
    Progress progress(invocation.verbosity());
    progress.update("drawing the weights of " + options.name, -1);
    size = write_zoo_model(options.name, options.zoo, path);
  }
  if (options.json) {
    print_out(
        document_text(nlohmann::ordered_json{{"network", options.name}, {"file", path}, {"bytes", size}}));
  } else if (!invocation.quiet) {
    print_about(*invocation.outputs,
                fmt::format("{}: {}, {}\n", path, options.name, bytes_text(static_cast<double>(size))));
  }
  return 0;
}

}  // namespace

void add_zoo_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("zoo", "Write a well-known network with seeded weights");
  command->add_option("NAME", options->name, "The network; see --list");
  command->add_option("-o,--output", options->output, "The model to write; default NAME.onnx")
      ->type_name("FILE.onnx");
  command->add_option("--seed", options->zoo.seed, "Seed of the weights; default 0")
      ->type_name("N")
      ->check(is_seed());
  command->add_option("--batch", options->zoo.batch, "Batch size; default 1")
      ->type_name("N")
      ->check(between(int64_t{1}, kMostOfZoo));
  command->add_option("--size", options->zoo.size, "Height and width of images, or length of sequences")
      ->type_name("N")
      ->check(between(int64_t{1}, kMostOfZoo));
  command->add_flag("--dynamic", options->zoo.dynamic, "Symbolic batch, and sequence length");
  command->add_flag("--list", options->list, "List the networks");
  command->add_flag("--json", options->json, "Report as JSON on stdout");
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, command, &invocation] {
    options->given = given_options(*command);
    invocation.action = [options, &invocation] {
      check_options(*options);
      if (options->list) return list_networks(options->json);
      if (options->name.empty()) user_error("which network? `gantry zoo --list` shows all");
      return write_network(*options, invocation);
    };
  });
}

}  // namespace gantry::cli
