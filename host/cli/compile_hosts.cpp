#include "host/cli/compile_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <thread>

#include "device_runtime/src/module_reader.h"
#include "host/cli/model_source.h"
#include "host/records/generator.h"
#include "host/support/mapped_file.h"
#include "host/support/stopwatch.h"
#include "host/support/temporary.h"
#include "module_generated.h"
#include "rpc/builds/build_client.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

using records::Outcome;
using std::chrono::milliseconds;

/// Between two looks whether there is a host, or whether it is still there.
constexpr milliseconds kLook{200};
/// That a program may take, by what the untuned one took there, until the host is given up.
constexpr double kPatience = 10, kLeastPatienceS = 300;
/// That a program may take, by the longest that was built there, until this machine builds it as well where
/// it has nothing else to do: a host that hangs does not keep the tuner waiting.
constexpr double kDue = 3, kLeastDueS = 2;
/// Packed weights take more than those of the untuned program, but not so much.
constexpr uint64_t kMostGrowth = 16, kMostMore = uint64_t{256} << 20;

milliseconds milliseconds_of(double seconds) {
  return milliseconds(static_cast<int64_t>(1e3 * seconds));
}

[[noreturn]] void bad_program(const std::string& address, const std::string& what) {
  throw rpc::Error(rpc::ErrorKind::kBug, fmt::format("compile host {}: {}", address, what));
}

/// Those of the plans that steps run, too.
size_t steps_of(const module_format::Variant& variant) {
  size_t steps = variant.steps()->size();
  if (variant.plans() != nullptr)
    for (const module_format::Plan* plan : *variant.plans()) steps += plan->steps()->size();
  return steps;
}

/// The module has as many programs as the untuned one, all for the target.
bool is_for_target(const module_format::Manifest& manifest, const tune::Network& network) {
  const auto* variants = manifest.variants();
  if (variants == nullptr || variants->size() != network.untuned().module.manifest.variants.size())
    return false;
  for (const module_format::Variant* variant : *variants)
    if (variant->target()->string_view() != network.target_name()) return false;
  return true;
}

/// What a host has sent, checked: a whole module, for the target alone.
TunedProgramPtr checked(const std::string& address, const tune::Network& network, rpc::BuildAnswer answer) {
  TunedProgram program;
  program.module = aligned_copy(answer.module);
  const auto contents = runtime::ModuleContents::from_bytes(program.module);
  if (!contents.ok()) bad_program(address, "it sent what is no module: " + contents.status().message());
  const module_format::Manifest& manifest = contents.value().manifest();
  if (!is_for_target(manifest, network))
    bad_program(address, fmt::format("it sent a module that is not for {} alone", network.target_name()));
  const auto& variant = *manifest.variants()->Get(static_cast<uint32_t>(network.program()));
  try {
    program.steps = network.steps_of(tune::parse_step_text(answer.steps, steps_of(variant)));
  } catch (const Error& error) {
    bad_program(address, error.what());
  }
  return std::make_shared<const TunedProgram>(std::move(program));
}

}  // namespace

size_t BuildCounts::elsewhere() const {
  return std::accumulate(hosts.begin(), hosts.end(), size_t{0},
                         [](size_t sum, const auto& host) { return sum + host.second; });
}

struct CompileHosts::Parts {
  Parts(const tune::Network& tuned, tune::Choices untuned_choices, TunedProgramPtr untuned_program,
        BuildQueue& jobs, std::unique_ptr<TuneMachines> machines)
      : network(tuned),
        choices(std::move(untuned_choices)),
        untuned(std::move(untuned_program)),
        queue(jobs),
        hosts(std::move(machines)),
        places(hosts->places()),
        packed(network.pack(folder.path() / "model")),
        model(folder.path() / "model"),
        clients(places, nullptr) {}

  const tune::Network& network;
  tune::Choices choices;
  TunedProgramPtr untuned;
  BuildQueue& queue;
  std::unique_ptr<TuneMachines> hosts;  ///< null: they were given back
  size_t places;
  TemporaryFolder folder{"tune"};
  tune::PackedModel packed;
  MappedFile model;

  mutable std::mutex mutex;
  std::condition_variable stopped;
  bool stopping = false;  ///< for good: nobody wants programs any more, or no host is of use
  bool hopeless = false;
  size_t ready = 0;
  std::vector<rpc::BuildClient*> clients;  ///< by place, to be interrupted
  std::vector<std::pair<std::string, size_t>> counts;
  std::vector<std::string> news;
  std::vector<std::thread> threads;

  void run(size_t place);
  void use(size_t place, const TuneMachine& host);
  double prepare(rpc::BuildClient& client, const TuneMachine& host) const;
  void work(rpc::BuildClient& client, size_t place, const TuneMachine& host, double untuned_s);
  Built build(rpc::BuildClient& client, const std::string& address, const tune::Choices& some,
              milliseconds patience) const;
  void count(const std::string& host);
  void say(const std::string& what) {
    const std::scoped_lock lock(mutex);
    news.push_back(what);
  }
  void stop();
  void give_up(const std::function<void(const std::string&)>& note, const std::string& why);
  bool ends() const {
    const std::scoped_lock lock(mutex);
    return stopping;
  }
};

void CompileHosts::Parts::run(size_t place) {
  while (!ends()) {
    const std::optional<TuneMachine> host = hosts->machine(place);
    if (!host) {
      std::unique_lock lock(mutex);
      stopped.wait_for(lock, kLook, [&] { return stopping; });
      continue;
    }
    try {
      use(place, *host);
    } catch (const std::exception& error) {
      if (ends()) return;
      const bool hope = hosts->lost(place, *host);
      say(error.what() + std::string(hope ? "; another host is asked for" : ""));
      if (hope) continue;
      const std::scoped_lock lock(mutex);
      hopeless = true;
      return;
    }
  }
}

/// Until it is gone, or nothing is to be built any more.
void CompileHosts::Parts::use(size_t place, const TuneMachine& host) {
  rpc::BuildClientOptions options;
  options.address = host.board;
  options.key = rpc::read_key_file(host.key);
  options.generator = records::generator_version();
  options.most_module_bytes = kMostGrowth * untuned->module.bytes.size() + kMostMore;
  rpc::BuildClient client(std::move(options));
  struct Registered {
    Parts& parts;
    size_t place;
    Registered(Parts& all, size_t where, rpc::BuildClient* one) : parts(all), place(where) {
      const std::scoped_lock lock(parts.mutex);
      parts.clients[place] = one;
      if (parts.stopping) one->interrupt();
    }
    ~Registered() {
      const std::scoped_lock lock(parts.mutex);
      parts.clients[place] = nullptr;
    }
  } const registered(*this, place, &client);
  const double untuned_s = prepare(client, host);
  hosts->used(place, host);
  say(host.words.empty() ? fmt::format("compile host {} is ready", host.board) : host.words);
  struct Ready {
    Parts& parts;
    explicit Ready(Parts& all) : parts(all) {
      const std::scoped_lock lock(parts.mutex);
      ++parts.ready;
    }
    ~Ready() {
      const std::scoped_lock lock(parts.mutex);
      --parts.ready;
    }
  } const is_ready(*this);
  work(client, place, host, untuned_s);
}

/// Seconds that the untuned program took, which also fills the host's cache of compiled kernels.
double CompileHosts::Parts::prepare(rpc::BuildClient& client, const TuneMachine& host) const {
  client.connect();
  client.put_model(packed.options, std::as_bytes(std::span(model.data(), model.size())), packed.text_size);
  const Stopwatch taken;
  const Built built = build(client, host.board, choices, {});
  if (const auto* failure = std::get_if<tune::Failure>(&built))
    throw rpc::Error(rpc::ErrorKind::kBoard,
                     fmt::format("compile host {}: it cannot build the model: {}", host.board, failure->why));
  const TunedProgram& program = *std::get<TunedProgramPtr>(built);
  if (!std::ranges::equal(program.module.bytes, untuned->module.bytes) || program.steps != untuned->steps)
    throw rpc::Error(
        rpc::ErrorKind::kBoard,
        fmt::format("compile host {}: it builds another program of the same decisions than this machine",
                    host.board));
  return taken.seconds();
}

void CompileHosts::Parts::work(rpc::BuildClient& client, size_t place, const TuneMachine& host,
                               double untuned_s) {
  const milliseconds patience = milliseconds_of(std::max(kPatience * untuned_s, kLeastPatienceS));
  double longest_s = untuned_s;
  while (!ends()) {
    const BuildJobPtr job =
        queue.take_elsewhere(kLook, milliseconds_of(std::max(kDue * longest_s, kLeastDueS)));
    if (!job) {
      const std::optional<TuneMachine> now = hosts->machine(place);
      if (!now || now->number != host.number) return;
      continue;
    }
    Built built;
    const Stopwatch taken;
    try {
      built = build(client, host.board, job->choices, patience);
      longest_s = std::max(longest_s, taken.seconds());
      hosts->used(place, host);
      if (std::holds_alternative<TunedProgramPtr>(built)) count(host.board);
    } catch (...) {
      queue.give_back(job);
      throw;
    }
    // Of a node whose disk is full, say, nothing is to be learned: this machine has the last word.
    const auto* failure = std::get_if<tune::Failure>(&built);
    if (failure != nullptr && failure->outcome != Outcome::kMisfit) {
      queue.give_back_here(job);
      continue;
    }
    queue.finish(job, std::move(built));
  }
}

void CompileHosts::Parts::count(const std::string& host) {
  const std::scoped_lock lock(mutex);
  auto programs = std::ranges::find(counts, host, &std::pair<std::string, size_t>::first);
  if (programs == counts.end()) programs = counts.emplace(counts.end(), host, 0);
  ++programs->second;
}

Built CompileHosts::Parts::build(rpc::BuildClient& client, const std::string& address,
                                 const tune::Choices& some, milliseconds patience) const {
  rpc::BuildAnswer answer = client.build(network.decisions_text(some), patience);
  if (answer.failure)
    return tune::Failure{answer.failure->misfit ? Outcome::kMisfit : Outcome::kBuildFailed,
                         answer.failure->why};
  return checked(address, network, std::move(answer));
}

CompileHosts::CompileHosts(const tune::Network& network, tune::Choices choices, TunedProgramPtr untuned,
                           BuildQueue& queue, std::unique_ptr<TuneMachines> hosts)
    : parts_(
          std::make_unique<Parts>(network, std::move(choices), std::move(untuned), queue, std::move(hosts))) {
  for (size_t i = 0; i < parts_->places; ++i)
    parts_->threads.emplace_back([parts = parts_.get(), i] { parts->run(i); });
}

CompileHosts::~CompileHosts() {
  parts_->stop();
}

/// By the thread that owns it; what is being built is given back.
void CompileHosts::Parts::stop() {
  {
    const std::scoped_lock lock(mutex);
    stopping = true;
    for (rpc::BuildClient* client : clients)
      if (client != nullptr) client->interrupt();
  }
  stopped.notify_all();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
}

void CompileHosts::Parts::give_up(const std::function<void(const std::string&)>& note,
                                  const std::string& why) {
  stop();
  hosts.reset();
  note(why + "; programs are built on this machine alone");
}

size_t CompileHosts::ready() const {
  const std::scoped_lock lock(parts_->mutex);
  return parts_->ready;
}

size_t CompileHosts::places() const {
  return parts_->places;
}

std::vector<std::pair<std::string, size_t>> CompileHosts::counts() const {
  const std::scoped_lock lock(parts_->mutex);
  return parts_->counts;
}

void CompileHosts::tell(const std::function<void(const std::string&)>& note) {
  Parts& parts = *parts_;
  std::vector<std::string> news;
  bool hopeless = false;
  {
    const std::scoped_lock lock(parts.mutex);
    news.swap(parts.news);
    hopeless = parts.hopeless;
  }
  for (const std::string& what : news) note(what);
  if (!parts.hosts) return;
  if (hopeless) return parts.give_up(note, "no compile host is of use");
  try {
    (void)parts.hosts->waits_for();  // which notes that by itself, now and then
  } catch (const std::exception& error) {
    parts.give_up(note, error.what());
  }
}

}  // namespace gantry::cli
