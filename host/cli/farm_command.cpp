#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/cli/between.h"
#include "host/cli/build_worker.h"
#include "host/cli/commands.h"
#include "host/cli/json_values.h"
#include "host/cli/text.h"
#include "host/farm/board_hold.h"
#include "host/farm/farm_file.h"
#include "host/farm/job_comment.h"
#include "host/farm/lease_machine.h"
#include "host/records/generator.h"
#include "host/support/error.h"
#include "host/support/suggest.h"
#include "rpc/builds/build_server.h"
#include "rpc/security/key.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry farm register pi5-1 --type pi5 --address 10.1.0.21:7453 --keys /opt/gantry-device/keys
                                   on the board or its gateway: tries it, and prints what Slurm is to be told
  gantry farm status               boards and leases, from anywhere that Slurm's commands work
  gantry farm drain pi5-1 --reason "its fan"
  gantry farm resume pi5-1
  gantry bench model.onnx --farm slurm --board pi5
The boards of a gateway are kept in $GANTRY_FARM/farm.toml (/etc/gantry/farm/farm.toml). docs/farm.md has the rest.)";

struct Options {
  std::string name, reason = "drained by hand";
  farm::FarmBoard board;
  double minutes = 60;
  bool json = false;
};

using Json = nlohmann::ordered_json;

int register_board(const Options& options, const Invocation& invocation) {
  const std::filesystem::path folder = farm::farm_folder();
  farm::FarmBoard board = options.board;
  board.keys = std::filesystem::absolute(board.keys);
  if (!std::filesystem::is_directory(board.keys))
    user_error(
        "{}: there is no such folder: give the key folder of the board's gantry-device, as this machine has "
        "it",
        board.keys.string());
  board.keys = std::filesystem::canonical(board.keys);  // one folder has one name
  const std::string cpu = farm::check_board(board.address, board.keys);
  size_t of_type = 0;
  std::string drained;
  farm::FarmFile::update(folder, [&](farm::FarmFile& farm) {
    farm.add(options.name, board);
    drained = farm.find(options.name).drained;
    for (const auto& [name, entry] : farm.boards()) of_type += entry.type == board.type ? 1 : 0;
  });
  invocation.note(fmt::format("board '{}' ({}) is in {}; it took a new key at once", options.name,
                              visible_line(cpu), (folder / "farm.toml").string()));
  if (!drained.empty())
    invocation.note(fmt::format("it stays drained ({}); `gantry farm resume {}` has it leased",
                                visible_line(drained), options.name));
  print_out(
      fmt::format("# Slurm, of a gateway with its boards: slurm.conf, then `scontrol reconfigure`\n"
                  "GresTypes=board\nNodeName=GATEWAY Gres=board:{0}:{1} …\n"
                  "SchedulerParameters=bf_interval=2,bf_window=1\n"
                  "# its gres.conf\nName=board Type={0} Count={1}\n"
                  "# or of a board that is a node of its own: there\n"
                  "slurmd -Z --conf \"Feature={0} Gres=board:{0}:1\"\n",
                  board.type, of_type));
  return 0;
}

/// "/etc/gantry/farm/farm.toml: no board 'pi5' is registered here; did you mean 'pi5-1'? Registered are …"
std::string unregistered(const std::string& name, const std::filesystem::path& folder,
                         const farm::FarmFile& here) {
  std::vector<std::string> names;
  for (const auto& [known, board] : here.boards()) names.push_back(known);
  const std::string file = (folder / "farm.toml").string();
  if (names.empty())
    return fmt::format("{}: no board is registered here, so none is called '{}'", file, name);
  std::string meant = did_you_mean(name, names);
  if (meant.empty()) meant = ".";
  return fmt::format("{}: no board '{}' is registered here{} Registered are {}", file, name, meant,
                     fmt::join(names, ", "));
}

/// The nodes of Slurm with boards, of which `name` may be one, as it is no board of this gateway.
std::vector<farm::NodeBoards> nodes_beside(const std::string& name, const std::string& unregistered,
                                           farm::Slurm& slurm) {
  try {
    return slurm.boards();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    throw Error(error.kind(),
                fmt::format("{}. `gantry farm register` adds one; those of other gateways are drained and "
                            "resumed there. If '{}' is a node: Slurm cannot be asked here: {}",
                            unregistered, name, error.what()));
  }
}

int set_drained(const Options& options, bool drained, const Invocation& invocation) {
  const std::filesystem::path folder = farm::farm_folder();
  const farm::FarmFile here = farm::FarmFile::read(folder);
  if (here.boards().contains(options.name)) {
    farm::FarmFile::update(folder, [&](farm::FarmFile& farm) {
      farm.find(options.name).drained = drained ? options.reason : "";
    });
    invocation.note(
        fmt::format("board '{}' {}", options.name,
                    drained ? "gets no new leases; the one that it has goes on" : "is leased again"));
    return 0;
  }
  farm::SlurmCommands slurm;
  const std::string unknown = unregistered(options.name, folder, here);
  const std::vector<farm::NodeBoards> nodes = nodes_beside(options.name, unknown, slurm);
  if (std::ranges::find(nodes, options.name, &farm::NodeBoards::node) == nodes.end())
    user_error(
        "{}; and no node of Slurm with boards is called so: `gantry farm status`, on the board's own "
        "gateway, has its name",
        unknown);
  if (drained)
    slurm.drain(options.name, options.reason);
  else
    slurm.resume(options.name);
  invocation.note(
      fmt::format("node '{}' {}", options.name, drained ? "gets no new leases" : "is leased again"));
  return 0;
}

/// What a lease has, or waits for; "": a compile host.
std::string board_of(const farm::Job& job) {
  return job.unit.empty() ? job.board : job.unit;
}

Json status_json(const std::vector<farm::NodeBoards>& nodes, const std::vector<farm::Job>& leases,
                 const farm::FarmFile& here) {
  Json json = {{"nodes", Json::array()}, {"leases", Json::array()}, {"boards", Json::array()}};
  for (const farm::NodeBoards& node : nodes)
    for (const auto& [type, count] : node.boards)
      json["nodes"].push_back({{"node", node.node},
                               {"state", node.state},
                               {"reason", said(node.reason)},
                               {"type", type},
                               {"boards", count.first},
                               {"leased", count.second}});
  for (const farm::Job& job : leases) {
    const auto comment = farm::parse_comment(job.comment);
    json["leases"].push_back({{"job", job.id},
                              {"user", job.user},
                              {"state", job.state},
                              {"reason", said(job.reason)},
                              {"board", said(board_of(job))},
                              {"address", said(comment ? comment->address : "")},
                              {"submitted", job.submitted},
                              {"started", said(job.started)},
                              {"ends", said(job.ends)}});
  }
  for (const auto& [name, board] : here.boards())
    json["boards"].push_back(
        {{"name", name}, {"type", board.type}, {"address", board.address}, {"drained", said(board.drained)}});
  return json;
}

}  // namespace

int show_farm(bool json) {
  farm::SlurmCommands slurm;
  const std::vector<farm::NodeBoards> nodes = slurm.boards();
  std::vector<farm::Job> leases = slurm.leases();
  std::erase_if(leases, [](const farm::Job& job) { return job.phase == farm::JobPhase::kEnded; });
  const farm::FarmFile here = farm::FarmFile::read(farm::farm_folder());
  if (json) {
    print_out(document_text(status_json(nodes, leases, here)));
    return 0;
  }
  constexpr auto kLeft = Table::Align::kLeft;
  Table of_nodes({{"node", kLeft},
                  {"type", kLeft},
                  {"boards", Table::Align::kRight},
                  {"leased", Table::Align::kRight},
                  {"state", kLeft}});
  for (const farm::NodeBoards& node : nodes)
    for (const auto& [type, count] : node.boards)
      of_nodes.row({visible_line(node.node), visible_line(type), std::to_string(count.first),
                    std::to_string(count.second),
                    visible_line(node.reason.empty() ? node.state : node.state + ": " + node.reason)});
  const int64_t now = std::time(nullptr);
  Table of_leases({{"lease", Table::Align::kRight}, {"user", kLeft}, {"board", kLeft}, {"state", kLeft}});
  for (const farm::Job& job : leases) {
    const auto comment = farm::parse_comment(job.comment);
    const bool runs = job.phase == farm::JobPhase::kRunning;
    const std::string state =
        runs ? fmt::format(
                   "{} for {}, {} left",
                   comment && !comment->address.empty() ? "has " + comment->address : "is not ready yet",
                   rough_duration_text(double(now - job.started)),
                   rough_duration_text(double(std::max<int64_t>(job.ends - now, 0))))
             : fmt::format("waits for {}: {}", rough_duration_text(double(now - job.submitted)), job.reason);
    const std::string board = board_of(job);
    of_leases.row({std::to_string(job.id), visible_line(job.user),
                   board.empty() ? "compile host" : visible_line(board), visible_line(state)});
  }
  std::string text = nodes.empty() ? "Slurm has no node with boards; see `gantry farm register --help`\n"
                                   : of_nodes.str(0, terminal_width());
  text += leases.empty() ? "no leases\n" : "\n" + of_leases.str(0, terminal_width());
  for (const auto& [name, board] : here.boards())
    text += fmt::format("{} ({}) at {}{}\n", name, board.type, board.address,
                        board.drained.empty() ? "" : ", drained: " + visible_line(board.drained));
  print_out(text);
  return 0;
}

namespace {

/// Of a job of Slurm's, which `LeasedBoard` has submitted. A user error where there is none of that name.
std::string job_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0')
    user_error("gantry farm hold and build are what a lease's job runs: {} is not set", name);
  return value;
}

rpc::PskKey lease_key() {
  const auto key = rpc::parse_key(job_variable("GANTRY_LEASE_KEY"));
  if (!key)
    user_error(
        "gantry farm hold and build are what a lease's job runs: GANTRY_LEASE_KEY is no key of gantry");
  return *key;
}

farm::JobId own_job() {
  return static_cast<farm::JobId>(std::strtoul(job_variable("SLURM_JOB_ID").c_str(), nullptr, 10));
}

int hold(const Options& options) {
  farm::HoldRequest request;
  request.board_type = options.board.type;
  request.lease = job_variable("GANTRY_LEASE");
  request.seconds = options.minutes * 60;
  request.key = lease_key();
  farm::SlurmCommands slurm;
  return farm::hold_board(farm::farm_folder(), request, slurm, own_job());
}

/// What Slurm gives the job; 0: it does not say.
int cpus_of_job() {
  const char* value = std::getenv("SLURM_CPUS_ON_NODE");
  return value == nullptr ? 0 : static_cast<int>(std::strtol(value, nullptr, 10));
}

/// Builds for the tuner that has the lease, until it is gone, or Slurm ends the job.
int build() {
  const std::string lease = job_variable("GANTRY_LEASE");
  const farm::JobId job = own_job();
  farm::SlurmCommands slurm;
  const std::string host = slurm.address_of(job_variable("SLURMD_NODENAME"));
  const bool is_v6 = host.find(':') != std::string::npos;
  rpc::BuildServerOptions options;
  options.key = lease_key();
  options.address = is_v6 ? "::" : "0.0.0.0";
  options.generator = records::generator_version();
  BuildWorker worker(cpus_of_job());
  rpc::BuildServer server(std::move(options), worker);
  const std::string address = fmt::format("{}:{}", is_v6 ? "[" + host + "]" : host, server.port());
  farm::tell_client(slurm, job, {lease, address, ""}, [] { return true; });
  server.run();
  return 0;
}

void add_register(CLI::App& farm, const std::shared_ptr<Options>& options, Invocation& invocation) {
  CLI::App* command = farm.add_subcommand("register", "Add a board, on it or on its gateway");
  command->add_option("NAME", options->name, "What to call it")->required();
  command->add_option("--type", options->board.type, "Boards of one type are alike: \"pi5\"")
      ->type_name("TYPE")
      ->required();
  command->add_option("--address", options->board.address, "Where clients reach its gantry-device")
      ->type_name("HOST:PORT")
      ->required();
  command
      ->add_option(
          "--keys", options->board.keys,
          "The key folder of its gantry-device, in which the job of a lease puts a key for the while")
      ->type_name("DIR")
      ->required();
  command->footer(
      "Example:\n  gantry farm register pi5-1 --type pi5 --address 10.1.0.21:7453 --keys "
      "/opt/gantry-device/keys");
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return register_board(*options, invocation); };
  });
}

}  // namespace

void add_farm_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* farm = app.add_subcommand("farm", "Boards that a lab leases by Slurm");
  farm->require_subcommand(1);
  farm->footer(kExamples);
  add_register(*farm, options, invocation);

  CLI::App* status = farm->add_subcommand("status", "Boards and leases");
  status->add_flag("--json", options->json, "Report as JSON on stdout");
  status->footer("Example:\n  gantry farm status --json");
  status->callback(
      [options, &invocation] { invocation.action = [options] { return show_farm(options->json); }; });

  CLI::App* drain = farm->add_subcommand("drain", "Lease a board to nobody, from the next lease on");
  drain->add_option("BOARD", options->name, "A board of this gateway, or a node of Slurm")->required();
  drain->add_option("--reason", options->reason, "Why")->type_name("TEXT");
  drain->footer("Example:\n  gantry farm drain pi5-1 --reason \"its fan\"");
  drain->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return set_drained(*options, true, invocation); };
  });

  CLI::App* resume = farm->add_subcommand("resume", "Lease a board again");
  resume->add_option("BOARD", options->name, "A board of this gateway, or a node of Slurm")->required();
  resume->footer("Example:\n  gantry farm resume pi5-1");
  resume->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return set_drained(*options, false, invocation); };
  });

  // For the jobs of leases, of boards and of compile hosts.
  CLI::App* hold_command = farm->add_subcommand("hold")->group("");
  hold_command->add_option("--type", options->board.type)->required();
  hold_command->add_option("--minutes", options->minutes);
  hold_command->callback(
      [options, &invocation] { invocation.action = [options] { return hold(*options); }; });
  CLI::App* build_command = farm->add_subcommand("build")->group("");
  build_command->callback([&invocation] { invocation.action = [] { return build(); }; });
}

}  // namespace gantry::cli
