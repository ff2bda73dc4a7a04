#include "host/cli/boards/setup_plan.h"

#include "host/cli/text.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// Beside the program: a cache that holds something.
constexpr uint64_t kRoom = uint64_t{64} << 20;

void check_place(const BoardFacts::Place& place, const std::string& folder, const SetupRequest& request,
                 const DeviceProgram& program) {
  using State = BoardFacts::Place::State;
  if (place.state == State::kSetUp) {
    user_error(
        "{}: is set up already ({}, in {}); `gantry boards update NAME` replaces the program, `gantry boards "
        "uninstall` "
        "removes it, and with the key of who has set it up `gantry boards add` is all that another "
        "workstation needs",
        request.label, place.version.empty() ? "gantry-device" : place.version, folder);
  }
  if (place.state == State::kBusy) user_error("{}: another gantry sets it up right now", request.label);
  if (place.state == State::kForeign)
    user_error("{}: {} is there, but is not what gantry has set up; move it away", request.label, folder);
  const uint64_t wanted = program.bytes + kRoom;
  if (place.free_bytes < wanted) {
    board_error("{}: {} has {} of free room; gantry-device and its cache want {}", request.label, folder,
                bytes_text(static_cast<double>(place.free_bytes)), bytes_text(static_cast<double>(wanted)));
  }
}

void check_users(const BoardFacts& facts, const SetupRequest& request, const SetupPlan& plan) {
  if (request.without_root && facts.rights == BoardFacts::Rights::kRoot)
    user_error("{}: ssh logs in as root; --no-root is for another user: USER@HOST", request.label);
  if (plan.as_root && facts.no_user) {
    board_error(
        "{}: lacks a user gantry, which the server becomes, and useradd or adduser to make one; add it to "
        "/etc/passwd and /etc/group there, or set the board up as another user with --no-root",
        request.label);
  }
}

Service choose_service(const BoardFacts& facts, bool as_root, const std::string& folder) {
  if (as_root) return facts.systemd ? Service::kSystemd : Service::kBackground;
  return facts.user_manager && fits_into_unit(folder) ? Service::kUserSystemd : Service::kBackground;
}

}  // namespace

std::string host_and_port(const std::string& host, uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return fmt::format("{}:{}", v6 ? "[" + host + "]" : host, port);
}

SetupPlan plan_place(const BoardFacts& facts, const SetupRequest& request) {
  SetupPlan plan;
  plan.as_root = facts.rights != BoardFacts::Rights::kUser && !request.without_root;
  plan.by_sudo = plan.as_root && facts.rights == BoardFacts::Rights::kSudo;
  plan.user = facts.user;
  plan.folder = plan.as_root ? kSystemFolder : user_folder(facts);
  plan.service = choose_service(facts, plan.as_root, plan.folder);
  plan.listen = host_and_port(request.listen, request.port);
  plan.address = host_and_port(request.host, request.port);
  plan.port = request.port;
  plan.key_name = request.name + ".key";
  return plan;
}

SetupPlan plan_setup(const BoardFacts& facts, const SetupRequest& request, const DeviceProgram& program) {
  SetupPlan plan = plan_place(facts, request);
  plan.program = program;
  if (!facts.missing.empty())
    board_error("{}: lacks {}, without which it cannot be set up", request.label,
                fmt::join(facts.missing, ", "));
  check_users(facts, request, plan);
  check_place(plan.as_root ? facts.for_all : facts.for_user, plan.folder, request, program);
  if (plan.service == Service::kSystemd && !facts.foreign_unit.empty()) {
    user_error(
        "{}: has the service gantry-device already ({}), as the package installs it; put a key into "
        "/etc/gantry/keys "
        "there and use `gantry boards add`, or remove the package first",
        request.label, facts.foreign_unit);
  }
  if (facts.port_taken) {
    user_error(
        "{}: something listens on port {} there already (`ss -ltnp` shows what); choose another with --port",
        request.label, request.port);
  }
  return plan;
}

std::string plan_text(const SetupPlan& plan) {
  const std::string runs =
      plan.as_root ? "user gantry, made for it where there is none" : "user " + plan.user;
  const char* service =
      plan.service == Service::kSystemd       ? "systemd, as gantry-device.service, also after a reset"
      : plan.service == Service::kUserSystemd ? "systemd, as a service of the user's, also after a reset"
                                              : "its script run; after a reset somebody has to";
  return fmt::format("  program   {} ({}, {})\n", plan.program.path.string(), plan.program.machine,
                     bytes_text(static_cast<double>(plan.program.bytes))) +
         fmt::format("  folder    {}{}\n", plan.folder, plan.by_sudo ? ", by sudo" : "") +
         fmt::format("  runs as   {}\n  started   by {}\n", runs, service) +
         fmt::format("  listens   on {}; this machine connects to {}\n", plan.listen, plan.address);
}

}  // namespace gantry::cli
