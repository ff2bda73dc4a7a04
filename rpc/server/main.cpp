// gantry-device: the program on the board.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "gantry/runtime.h"
#include "rpc/build_commit.h"
#include "rpc/error.h"
#include "rpc/protocol/local.h"
#include "rpc/protocol/message.h"
#include "rpc/server/board_info.h"
#include "rpc/server/cache.h"
#include "rpc/server/executor_start.h"
#include "rpc/server/server.h"

namespace gantry::rpc {
namespace {

constexpr char kExamples[] = R"(
Examples:
  gantry-device serve
      Serve this machine only, on 127.0.0.1:7453, without a key.
  gantry-device serve --listen 0.0.0.0:7453 --key board.key
      Serve the network. Make board.key with 'gantry keygen' and copy it here and to the workstation.
  gantry-device serve --listen 0.0.0.0:7453 --key keys
      The same for several users: keys is a folder with a key file for each. One that is added or removed
      there is accepted or revoked at once.
  sudo gantry-device serve --user gantry --listen 0.0.0.0:7453 --key /etc/gantry/keys
      As root, who alone can read the keys; modules run as user gantry.
  gantry-device serve --listen 0.0.0.0:7453 --key board.key --announce "pi in the lab"
      The same, and 'gantry boards discover' finds it on the local network; needs avahi-daemon and avahi-utils.
  gantry-device serve --listen 127.0.0.1:0
      Take any free port; the line on stdout says which.
  gantry-device info --json
      What this board is: CPU, features, memory.
Then, on the workstation:
  gantry boards add pi 192.168.1.20:7453 --key board.key
  gantry bench model.onnx --on pi)";

struct ServeArguments {
  std::string listen = "127.0.0.1:7453";
  std::vector<std::string> keys;
  std::string user;
  std::string cache;
  std::uint64_t cache_size = std::uint64_t{4} << 30;
  std::uint64_t session_memory = 0;
  double deadline_s = 600, idle_s = 3600, stall_s = 60, handshake_s = 5, grace_s = 5, turn_s = 60;
  std::uint32_t max_sessions = 32;
  std::vector<std::string> urgent_keys;
  std::string log_level = "info";
  bool quiet = false;
  bool announce = false;
  std::string announced_name;
};

LogLevel log_level_of(const ServeArguments& arguments) {
  if (arguments.quiet || arguments.log_level == "error") return LogLevel::kError;
  return arguments.log_level == "warning" ? LogLevel::kWarning : LogLevel::kInfo;
}

void split_listen(const std::string& listen, ServeOptions& options) {
  const std::size_t bracket = listen.starts_with('[') ? listen.find(']') : std::string::npos;
  const std::size_t colon = listen.find(':', bracket == std::string::npos ? 0 : bracket);
  options.host = bracket != std::string::npos ? listen.substr(1, bracket - 1) : listen.substr(0, colon);
  if (colon == std::string::npos) return;
  const std::string port = listen.substr(colon + 1);
  const bool digits =
      !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoul(port) > 65535)
    throw Error(ErrorKind::kRequest, "--listen " + listen + ": write ADDRESS:PORT, e.g. 0.0.0.0:7453");
  options.port = static_cast<std::uint16_t>(std::stoul(port));
}

int run_serve(const ServeArguments& arguments) {
  const auto ms = [](double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  };
  ServeOptions options;
  split_listen(arguments.listen, options);
  options.keys.assign(arguments.keys.begin(), arguments.keys.end());
  options.user = arguments.user;
  options.cache = arguments.cache;
  options.cache_bytes = arguments.cache_size;
  options.max_sessions = arguments.max_sessions;
  options.session_memory_bytes = arguments.session_memory;
  options.deadline = ms(arguments.deadline_s);
  options.idle_timeout = ms(arguments.idle_s);
  options.stall_timeout = ms(arguments.stall_s);
  options.handshake_timeout = ms(arguments.handshake_s);
  options.shutdown_grace = ms(arguments.grace_s);
  options.lease.turn = ms(arguments.turn_s);
  options.urgent_keys = arguments.urgent_keys;
  options.log_level = log_level_of(arguments);
  if (arguments.announce) options.announce = arguments.announced_name;
  return serve(options);
}

/// Overwrites where the keys are in what every user of this machine sees of the command line.
void hide_key_paths(int argc, char** argv) {
  constexpr std::string_view kOption = "--key";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    char* path = nullptr;
    if (argument == kOption && i + 1 < argc) path = argv[++i];
    if (argument.starts_with(kOption) && argument.substr(kOption.size()).starts_with('='))
      path = argv[i] + kOption.size() + 1;
    if (path) std::fill_n(path, std::strlen(path), '*');
  }
}

/// Turns "512MiB" into a number of bytes.
CLI::Validator size_in_bytes() {
  const auto convert = [](std::string& text) -> std::string {
    const std::string given = text;
    try {
      if (CLI::AsSizeValue(false)(text).empty()) return "";
    } catch (const CLI::ValidationError&) {
    }
    return "'" + given + "' is not a size like 512MiB";
  };
  return CLI::Validator(convert, "", "size");
}

void add_access_options(CLI::App& command, ServeArguments& a) {
  command.add_option("--listen", a.listen, "Where to listen; port 0 takes a free one")
      ->type_name("ADDR:PORT")
      ->capture_default_str();
  command
      .add_option("--key", a.keys,
                  "Key file of 'gantry keygen', or a folder with one for each user; as often as needed; "
                  "required beyond loopback")
      ->type_name("PATH")
      ->allow_extra_args(false);
  command.add_option("--user", a.user, "As root: become this user when the port and the keys are open")
      ->type_name("NAME");
  command
      .add_option_function<std::vector<std::string>>(
          "--announce",
          [&a](const std::vector<std::string>& given) {
            a.announce = true;
            a.announced_name = given.empty() ? "" : given[0];
          },
          "Have Avahi tell the local network of this board, by this name or the machine's: 'gantry boards "
          "discover' finds it")
      ->expected(0, 1)
      ->type_name("[NAME]");
}

void add_limit_options(CLI::App& command, ServeArguments& a) {
  command.add_option("--cache", a.cache, "Where uploaded segments are kept")->type_name("DIR");
  command.add_option("--cache-size", a.cache_size, "Its bound, e.g. 512MiB")
      ->transform(size_in_bytes())
      ->type_name("SIZE")
      ->default_str("4GiB");
  command.add_option("--max-sessions", a.max_sessions, "Clients at once")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option(
          "--session-memory", a.session_memory,
          "Memory of one session's modules, and again of its data, e.g. 2GiB; 0: three quarters of the "
          "machine's, or of the limit that systemd, Slurm or a container has set the server")
      ->transform(size_in_bytes())
      ->type_name("SIZE");
}

/// How long things take, and whose turn comes first.
void add_time_options(CLI::App& command, ServeArguments& a) {
  const auto seconds = CLI::Range(0.001, 1e6).description("");
  command.add_option("--deadline", a.deadline_s, "Longest time of one request")
      ->check(seconds)
      ->type_name("SECONDS")
      ->capture_default_str();
  command.add_option("--turn", a.turn_s, "Who measures gives way to others that wait after this")
      ->check(seconds)
      ->type_name("SECONDS")
      ->capture_default_str();
  command
      .add_option("--urgent", a.urgent_keys,
                  "Identity of a key that may measure with --priority urgent; as often as needed")
      ->type_name("KEY")
      ->allow_extra_args(false);
  command.add_option("--idle-timeout", a.idle_s, "A session without requests ends after this")
      ->check(seconds)
      ->type_name("SECONDS")
      ->capture_default_str();
  command
      .add_option("--stall-timeout", a.stall_s,
                  "A peer that stands still within a message for so long is gone")
      ->check(seconds)
      ->type_name("SECONDS")
      ->capture_default_str();
  command.add_option("--handshake-timeout", a.handshake_s, "A peer must authenticate within this")
      ->check(seconds)
      ->type_name("SECONDS")
      ->capture_default_str();
  command.add_option("--shutdown-grace", a.grace_s, "For running requests, after SIGTERM")
      ->check(seconds)
      ->type_name("SECONDS")
      ->capture_default_str();
}

void add_log_options(CLI::App& command, ServeArguments& a) {
  CLI::Option* level =
      command.add_option("--log-level", a.log_level, "The least grave events to report on stderr")
          ->check(CLI::IsMember({"error", "warning", "info"}).description(""))
          ->type_name("error|warning|info")
          ->capture_default_str();
  command.add_flag("-q,--quiet", a.quiet, "Report nothing but errors")->excludes(level);
}

/// In the order in which --help has them.
void add_serve_options(CLI::App& command, ServeArguments& a) {
  add_access_options(command, a);
  add_limit_options(command, a);
  add_time_options(command, a);
  add_log_options(command, a);
}

std::string json_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return quoted + "\"";
}

/// "NVIDIA Jetson AGX Orin, sm_87, 61989 MiB, driver for CUDA 12.6"
std::string gpu_text(const wire::GpuDescriptionT& gpu) {
  std::string text = gpu.name + ", sm_" + std::to_string(gpu.compute_capability) + ", " +
                     std::to_string(gpu.memory_bytes >> 20) + " MiB, driver ";
  text += (gpu.driver.empty() ? "" : gpu.driver + " ") + std::string("for CUDA ");
  return text + std::to_string(gpu.cuda_version / 1000) + "." + std::to_string(gpu.cuda_version % 1000 / 10);
}

std::string gpu_json(const wire::GpuDescriptionT& gpu) {
  return "{\"name\": " + json_text(gpu.name) +
         ", \"compute_capability\": " + std::to_string(gpu.compute_capability) +
         ", \"multiprocessors\": " + std::to_string(gpu.multiprocessors) +
         ", \"clock_mhz\": " + std::to_string(gpu.clock_mhz) +
         ", \"memory_bytes\": " + std::to_string(gpu.memory_bytes) +
         ", \"memory_free_bytes\": " + std::to_string(gpu.memory_free_bytes) +
         ", \"l2_bytes\": " + std::to_string(gpu.l2_bytes) +
         ", \"cuda_version\": " + std::to_string(gpu.cuda_version) +
         ", \"driver\": " + json_text(gpu.driver) + "}";
}

int run_info(bool json) {
  wire::BoardDescriptionT board = describe_board(ServeOptions{});
  add_gpus(board);
  std::string gpus;
  for (const auto& gpu : board.gpus)
    gpus += json ? (gpus.empty() ? "" : ", ") + gpu_json(*gpu) : "GPU            " + gpu_text(*gpu) + "\n";
  if (!json && board.gpus.empty()) gpus = "GPU            none: " + board.gpu_problem + "\n";
  std::string features;
  for (const std::string& feature : board.features)
    features += (features.empty() ? "" : json ? ", " : " ") + (json ? json_text(feature) : feature);
  if (json) {
    std::cout << "{\"version\": " << json_text(board.version)
              << ", \"hostname\": " << json_text(board.hostname)
              << ", \"system\": " << json_text(board.system)
              << ", \"architecture\": " << json_text(board.architecture)
              << ", \"cpu\": " << json_text(board.cpu) << ", \"llvm_cpu\": " << json_text(board.llvm_cpu)
              << ", \"features\": [" << features << "], \"logical_cpus\": " << board.logical_cpus
              << ", \"physical_cores\": " << board.physical_cores
              << ", \"memory_bytes\": " << board.memory_bytes
              << ", \"memory_available_bytes\": " << board.memory_available_bytes << ", \"gpus\": [" << gpus
              << "], \"gpu_problem\": " << json_text(board.gpu_problem) << "}\n";
    return 0;
  }
  std::cout << "gantry-device  " << board.version << "\nhost           " << board.hostname
            << "\nsystem         " << board.system << "\nCPU            " << board.cpu
            << (board.llvm_cpu.empty() ? "" : " (" + board.llvm_cpu + ")") << "\ncores          "
            << board.physical_cores << " (" << board.logical_cpus << " logical CPUs)\nmemory         "
            << (board.memory_bytes >> 20) << " MiB, " << (board.memory_available_bytes >> 20) << " MiB free\n"
            << gpus << "features       " << features << "\n";
  return 0;
}

std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  for (const std::string& argument : unknown) {
    if (argument.starts_with('-') && argument != "-")
      return "unknown option '" + argument.substr(0, argument.find('=')) + "'";
  }
  const bool no_command = app.get_subcommands().empty();
  if (no_command && unknown.empty()) return "give a command: serve or info";
  if (no_command) return "unknown command '" + unknown[0] + "'; there are serve and info";
  return unknown.empty() ? error.what() : "unexpected argument '" + unknown[0] + "'";
}

int run(int argc, char** argv) {
  CLI::App app("gantry-device runs on a board what gantry compiled on a workstation, and measures it.",
               "gantry-device");
  app.set_version_flag("--version",
                       std::string("gantry-device ") + gantry_version() + ", commit " + build_commit());
  app.require_subcommand(1);
  app.footer(kExamples);
  ServeArguments arguments;
  bool json = false;
  CLI::App* serve_command = app.add_subcommand("serve", "Serve workstations until SIGTERM");
  add_serve_options(*serve_command, arguments);
  CLI::App* info_command = app.add_subcommand("info", "Show what this board is");
  info_command->add_flag("--json", json, "As one JSON object");
  // For gantry itself; nobody else has the descriptor that it serves.
  CLI::App* local_command = app.add_subcommand(std::string(kLocalCommand))->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "gantry-device: %s\nSee 'gantry-device --help'.\n", complaint(app, error).c_str());
    return 1;
  }
  if (local_command->parsed()) return serve_connection(kLocalSocket);
  hide_key_paths(argc, argv);
  return serve_command->parsed() ? run_serve(arguments) : run_info(json);
}

}  // namespace
}  // namespace gantry::rpc

int main(int argc, char** argv) {
  try {
    // First, and without the parser of arguments: it costs every executor a part of its start.
    if (argc > 1 && argv[1] == gantry::rpc::kExecutorCommand) return gantry::rpc::executor_main(argc, argv);
    return gantry::rpc::run(argc, argv);
  } catch (const gantry::rpc::Error& error) {
    std::fprintf(stderr, "gantry-device: %s\n", error.what());
    return gantry::rpc::exit_code(error.kind());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gantry-device: internal error: %s\n", error.what());
    return 3;
  }
}
