#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "host/cli/commands.h"
#include "host/cli/json_values.h"
#include "host/support/error.h"
#include "host/support/output_file.h"
#include "rpc/security/key.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry keygen pi.key                               a fresh key, readable by you alone
  scp pi.key pi:                                     the board needs the same file
  ssh pi ./gantry-device serve --listen 0.0.0.0:7453 --key pi.key
  gantry boards add pi 192.168.1.20:7453 --key pi.key
  gantry keygen alice.key --identity alice           one of several users: the board's --key names a folder
                                                     with a key for each; removing a file there revokes it
Whoever holds the key may use the board. A key that exists is never replaced without --force.)";

struct Options {
  std::string file, output, identity;
  bool json = false;
  bool force = false;
};

int generate(const Options& options, const Invocation& invocation) {
  const std::string& file = options.file.empty() ? options.output : options.file;
  if (file.empty()) user_error("name the key file to write, e.g. gantry keygen pi.key");
  if (!options.file.empty() && !options.output.empty()) {
    user_error("two files are named, {} and {}; a key goes into one", options.file, options.output);
  }
  if (options.json) invocation.outputs->reports("--json");
  invocation.outputs->writes(file, FileKind::kKey, "", options.force);
  const rpc::PskKey key = rpc::generate_key(options.identity);
  write_file(file, rpc::key_file_text(key), OutputFile::Privacy::kSecret);
  if (options.json) {
    print_out(document_text(nlohmann::ordered_json{{"file", file}, {"identity", key.identity}}));
  } else if (!invocation.quiet) {
    print_about(
        *invocation.outputs,
        fmt::format("{}: key '{}'. Copy it to the board, and serve with --key.\n", file, key.identity));
  }
  return 0;
}

}  // namespace

void add_keygen_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("keygen", "Make a key that protects a board");
  command->add_option("FILE", options->file, "The key file to write")->type_name(" ");
  command->add_option("-o,--output", options->output, "The same, as an option")->type_name("FILE");
  command->add_option("--identity", options->identity, "Name of the key in messages; default: a random one")
      ->type_name("NAME");
  command->add_flag("--json", options->json, "Report as JSON on stdout");
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return generate(*options, invocation); };
  });
}

}  // namespace gantry::cli
