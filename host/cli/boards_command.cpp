#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "host/cli/boards/board_commands.h"
#include "host/cli/boards_file.h"
#include "host/cli/commands.h"
#include "host/cli/execution.h"
#include "host/cli/json_values.h"
#include "host/cli/machine_json.h"
#include "host/cli/text.h"
#include "host/cli/turns/farm_options.h"
#include "host/cli/turns/measuring_turn.h"
#include "host/codegen/find_target.h"
#include "host/machine/target.h"
#include "host/support/error.h"
#include "rpc/security/key.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry boards setup me@192.168.1.20 --name pi  over ssh, from nothing to a first timing
  gantry boards add pi 192.168.1.20:7453 --key pi.key
  gantry boards                                  all of them
  gantry boards info pi                          connect and ask the board what it is
  gantry boards info 127.0.0.1:7453
  gantry boards discover                         those that announce themselves on this network
  gantry boards remove pi
They are kept in $XDG_CONFIG_HOME/gantry/boards.toml (~/.config/gantry/boards.toml).)";

struct Options {
  std::string name, address, key;
  std::string list_farm;
  FarmOptions farm;
  bool json = false;
};

int list_boards(const Options& options) {
  if (!options.list_farm.empty()) return show_farm(options.json);
  const BoardsFile boards = BoardsFile::read(boards_path());
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& [name, entry] : boards.boards()) {
      list.push_back({{"name", name}, {"address", entry.address}, {"key", entry.key.string()}});
    }
    print_out(document_text(list));
    return 0;
  }
  if (boards.boards().empty()) {
    print_out(
        "no boards yet; `gantry boards setup USER@HOST` sets one up, `gantry boards add NAME HOST:PORT --key "
        "FILE` "
        "adds one\n");
    return 0;
  }
  Table table(
      {{"board", Table::Align::kLeft}, {"address", Table::Align::kLeft}, {"key", Table::Align::kLeft}});
  for (const auto& [name, entry] : boards.boards()) table.row({name, entry.address, entry.key.string()});
  print_out(table.str(0, terminal_width()));
  return 0;
}

/// `--json` of the command around them reaches those commands too that have no report.
void refuse_json(const CLI::App& boards) {
  for (const CLI::App* command : boards.get_subcommands()) {
    if (command->get_option_no_throw("--json") == nullptr)
      user_error("boards {} has no report as JSON; leave out --json", command->get_name());
  }
}

int add_board(const Options& options, const Invocation& invocation) {
  BoardEntry entry{options.address, {}};
  if (!options.key.empty()) {
    rpc::read_key_file(options.key);  // a wrong file is better found now
    entry.key = std::filesystem::absolute(options.key);
  }
  bool replaced = false;
  BoardsFile::update(boards_path(), [&](BoardsFile& boards) {
    replaced = boards.boards().count(options.name) > 0;
    boards.add(options.name, std::move(entry));
  });
  invocation.note(fmt::format("{} board '{}' in {}", replaced ? "replaced" : "added", options.name,
                              boards_path().string()));
  return 0;
}

int remove_board(const Options& options, const Invocation& invocation) {
  BoardsFile::update(boards_path(), [&](BoardsFile& boards) { boards.remove(options.name); });
  invocation.note(fmt::format("removed board '{}'", options.name));
  return 0;
}

/// A line for each GPU, or why there is none.
std::string gpus_text(const rpc::BoardInfo& info) {
  if (info.gpus.empty()) {
    return fmt::format("  gpu       none: {}\n", info.gpu_problem.empty()
                                                     ? "its gantry-device is too old to say"
                                                     : visible_line(info.gpu_problem));
  }
  std::string text;
  for (size_t i = 0; i < info.gpus.size(); ++i) {
    const rpc::GpuInfo& gpu = info.gpus[i];
    text += fmt::format("  gpu {:<6}{}: compute capability {}.{} (sm_{}), {} multiprocessors, {}, {} free; ",
                        i, visible_line(gpu.name), gpu.compute_capability / 10, gpu.compute_capability % 10,
                        gpu.compute_capability, gpu.multiprocessors,
                        bytes_text(static_cast<double>(gpu.memory_bytes)),
                        bytes_text(static_cast<double>(gpu.memory_free_bytes)));
    text += fmt::format("driver {}for CUDA {}.{}\n", gpu.driver.empty() ? "" : visible_line(gpu.driver) + " ",
                        gpu.cuda_version / 1000, gpu.cuda_version % 1000 / 10);
  }
  return text;
}

/// Who measures, and who waits to, a line each.
std::string lease_text(const std::optional<rpc::MeasuringQueue>& queue) {
  if (!queue) return "  lease     its gantry-device is too old to say\n";
  std::string text = fmt::format("  lease     {}\n", queue_text(*queue));
  for (size_t i = 0; i < queue->waiting.size(); ++i)
    text += fmt::format("    {:<8}{}\n", i + 1, waiting_text(queue->waiting[i]));
  return text;
}

nlohmann::ordered_json entry_json(const rpc::LeaseEntry& entry, const char* since) {
  return {{"key", said(entry.key)},
          {"address", said(entry.address)},
          {"purpose", said(entry.purpose)},
          {"priority", priority_name(entry.priority)},
          {since, static_cast<double>(entry.since.count()) / 1e3}};
}

nlohmann::ordered_json queue_json(const std::optional<rpc::MeasuringQueue>& queue) {
  if (!queue) return nullptr;
  nlohmann::ordered_json json;
  json["holder"] = queue->holder ? entry_json(*queue->holder, "held_s") : nlohmann::ordered_json(nullptr);
  json["measures_now"] = queue->measuring;
  json["turn_s"] = static_cast<double>(queue->turn.count()) / 1e3;
  json["turn_left_s"] =
      queue->holder ? nlohmann::ordered_json(static_cast<double>(queue->turn_left.count()) / 1e3) : nullptr;
  json["waiting_count"] = queue->waiting_count;
  json["waiting"] = nlohmann::ordered_json::array();
  for (const rpc::LeaseEntry& entry : queue->waiting)
    json["waiting"].push_back(entry_json(entry, "waited_s"));
  return json;
}

int show_board(const Options& options) {
  if (options.name.empty())
    user_error("boards info: which board? give a name, HOST:PORT, or --farm slurm --board TYPE");
  const auto machine = open_machine(options.name, options.key);
  const rpc::BoardInfo& info = machine->info_with_gpus();
  const std::optional<rpc::MeasuringQueue> queue = machine->leases();
  const Target target = target_of_board(info.architecture, info.llvm_cpu, info.features);
  if (options.json) {
    nlohmann::ordered_json json = board_info_json(info);
    json["address"] = machine->address();
    json["target"] = target.name;
    json["measuring"] = queue_json(queue);
    print_out(document_text(json));
    return 0;
  }
  // Texts of the board, each in its line.
  print_out(fmt::format("{}: {}\n", machine->label(), visible_line(info.hostname)) +
            fmt::format("  system    {}\n  cpu       {}{}\n", visible_line(info.system),
                        visible_line(info.cpu),
                        info.llvm_cpu.empty() ? "" : " (" + visible_line(info.llvm_cpu) + ")") +
            fmt::format("  cores     {}, {} hardware threads\n", info.physical_cores, info.logical_cpus) +
            fmt::format("  memory    {}, {} available; a session may use {}\n",
                        bytes_text(static_cast<double>(info.memory_bytes)),
                        bytes_text(static_cast<double>(info.memory_available_bytes)),
                        bytes_text(static_cast<double>(info.session_memory_bytes))) +
            gpus_text(info) + lease_text(queue) +
            fmt::format("  features  {}\n  target    {}\n  server    gantry-device {}\n",
                        visible_line(fmt::format("{}", fmt::join(info.features, " "))), target.name,
                        visible_line(info.version)));
  return 0;
}

/// show_board(), of one that is leased for the while where a farm is named.
int show_board_of_farm(const Options& options, const Invocation& invocation) {
  ExecutionOptions choice;
  choice.board = options.name;
  choice.key = options.key;
  int status = 0;
  with_board(options.farm, {}, {choice}, invocation, [&](const std::vector<ExecutionOptions>& choices) {
    Options shown = options;
    shown.name = choices.front().board;
    shown.key = choices.front().key;
    status = show_board(shown);
  });
  return status;
}

void add_json_flag(CLI::App* command, Options& options) {
  command->add_flag("--json", options.json, "Report as JSON on stdout");
}

}  // namespace

void add_boards_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* boards =
      app.add_subcommand("boards", "Set boards up over ssh, name them, and ask them what they are");
  boards->require_subcommand(0, 1);
  add_json_flag(boards, *options);
  boards->footer(kExamples);
  boards->callback([boards, options, &invocation] {
    if (!invocation.action) {
      invocation.action = [options] { return list_boards(*options); };
    } else if (options->json) {
      invocation.action = [boards, action = std::move(invocation.action)] {
        refuse_json(*boards);
        return action();
      };
    }
  });

  add_boards_setup_command(*boards, invocation);
  add_boards_update_command(*boards, invocation);
  add_boards_uninstall_command(*boards, invocation);

  CLI::App* add = boards->add_subcommand("add", "Add a board, or replace the one of that name");
  add->add_option("NAME", options->name, "What to call it")->required();
  add->add_option("HOST:PORT", options->address, "Where its gantry-device listens")->required();
  add->add_option("--key", options->key, "Key file (see `gantry keygen`)")->type_name("FILE");
  add->footer("Example:\n  gantry boards add pi 192.168.1.20:7453 --key pi.key");
  add->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return add_board(*options, invocation); };
  });

  CLI::App* list = boards->add_subcommand("list", "List the boards");
  add_json_flag(list, *options);
  list->add_option("--farm", options->list_farm,
                   "Those of a lab's farm, and their leases: `gantry farm status`")
      ->type_name("slurm")
      ->check(CLI::IsMember({"slurm"}).description(""));
  list->footer("Example:\n  gantry boards list --json");
  list->callback([options, &invocation] { invocation.action = [options] { return list_boards(*options); }; });

  CLI::App* info = boards->add_subcommand("info", "Connect to a board and show what it is");
  info->add_option("BOARD", options->name, "A name, or HOST:PORT");
  add_farm_options(*info, options->farm);
  info->add_option("--key", options->key, "Key file; default: the one it was added with")->type_name("FILE");
  add_json_flag(info, *options);
  info->footer("Examples:\n  gantry boards info pi\n  gantry boards info 127.0.0.1:7453 --json");
  info->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return show_board_of_farm(*options, invocation); };
  });

  add_discover_command(*boards, invocation);

  CLI::App* remove = boards->add_subcommand("remove", "Forget a board");
  remove->add_option("NAME", options->name, "The board")->required();
  remove->footer("Example:\n  gantry boards remove pi");
  remove->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return remove_board(*options, invocation); };
  });
}

}  // namespace gantry::cli
