// Programs of a small network that are built here and on compile hosts, which the test plays.
#include "host/cli/compile_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "host/cli/build_worker.h"
#include "host/cli/model_source.h"
#include "host/cli/program_builder.h"
#include "host/codegen/find_target.h"
#include "host/graph/graph.h"
#include "host/ops/op.h"
#include "host/records/generator.h"
#include "host/support/error.h"
#include "host/support/output_file.h"
#include "host/support/stopwatch.h"
#include "host/tune/search.h"
#include "rpc/builds/build_server.h"
#include "tests/support/message_of.h"
#include "tests/support/small_weights.h"

namespace gantry::cli {
namespace {

Graph network() {
  const std::string text =
      "fn @main(%x: Tensor[(1, 16, 12, 12), f32]) -> Tensor[(1, 16, 12, 12), f32] {\n"
      "  %a = nn.conv(%x, @w: Tensor[(16, 16, 3, 3), f32], channels=16, kernel=[3, 3], strides=[1, 1], "
      "dilations=[1, 1], padding=(1, 1, 1, 1))  // first\n"
      "  %b = nn.relu(%a)  // relu, \"odd\"\n  return %b\n}\n";
  return parse_graph(text, op_set(), {{"w", testing::small_weights({16, 16, 3, 3})}});
}

CompileOptions compilation() {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3")};
  return options;
}

/// A BuildWorker whose answers a test changes.
class PlayedWorker : public BuildWorker {
 public:
  using Change = std::function<void(int build, rpc::BuildAnswer& answer)>;
  explicit PlayedWorker(Change change) : BuildWorker(1), change_(std::move(change)) {}
  rpc::BuildAnswer build(const std::string& decisions) override {
    rpc::BuildAnswer answer = BuildWorker::build(decisions);
    if (change_) change_(builds_++, answer);
    return answer;
  }

 private:
  Change change_;
  int builds_ = 0;
};

class Host {
 public:
  explicit Host(PlayedWorker::Change change, const std::string& generator) : worker_(std::move(change)) {
    rpc::BuildServerOptions options;
    options.key = rpc::generate_key();
    options.address = "127.0.0.1";
    options.generator = generator;
    write_file(key_file(), rpc::key_file_text(options.key), OutputFile::Privacy::kSecret);
    server_ = std::make_unique<rpc::BuildServer>(std::move(options), worker_);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Host() {
    server_->stop();
    thread_.join();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }
  std::string key_file() const { return (folder_.path() / "key").string(); }

 private:
  TemporaryFolder folder_{"host"};
  PlayedWorker worker_;
  std::unique_ptr<rpc::BuildServer> server_;
  std::thread thread_;
};

/// Each place has its host, until that is lost.
class PlayedHosts : public TuneMachines {
 public:
  explicit PlayedHosts(const std::vector<std::unique_ptr<Host>>& hosts) {
    for (const auto& host : hosts) {
      TuneMachine machine;
      machine.number = machines_.size() + 1;
      machine.board = host->address();
      machine.key = host->key_file();
      machines_.emplace_back(machine);
    }
  }
  size_t places() const override { return machines_.size(); }
  bool renews() const override { return true; }
  std::optional<TuneMachine> machine(size_t place) const override {
    const std::scoped_lock lock(mutex_);
    return machines_[place];
  }
  bool lost(size_t place, const TuneMachine&) override {
    const std::scoped_lock lock(mutex_);
    machines_[place].reset();
    return false;
  }
  std::string label(const std::string& one) const override { return one; }
  std::string name() const override { return ""; }

 private:
  mutable std::mutex mutex_;
  std::vector<std::optional<TuneMachine>> machines_;
};

class Hosts : public ::testing::Test {
 protected:
  void add_host(PlayedWorker::Change change = {},
                const std::string& generator = records::generator_version()) {
    hosts_.push_back(std::make_unique<Host>(std::move(change), generator));
  }
  void use_hosts() { builder_.use(std::make_unique<PlayedHosts>(hosts_), untuned()); }
  tune::Choices untuned() const {
    tune::Choices choices;
    for (const tune::Task& task : network_.tasks()) choices.push_back(task.untuned);
    return choices;
  }
  /// Ways to compute the convolution that fit it.
  std::vector<tune::Choices> others(size_t count) {
    tune::Search search(network_.tasks()[0].space, network_.tasks()[0].untuned, 5);
    std::vector<tune::Choices> all;
    while (all.size() < count) {
      const std::vector<Decision> pool = search.pool(12);
      if (pool.empty()) break;
      const std::vector<tune::Look> looks = network_.look_at(0, pool);
      for (size_t i = 0; i < pool.size() && all.size() < count; ++i) {
        search.tell(pool[i], 1);
        tune::Choices choices = untuned();
        choices[0] = pool[i];
        if (!looks[i].misfit && choices != untuned()) all.push_back(choices);
      }
    }
    return all;
  }
  /// Builds them with the hosts' help, and compares each with what this machine makes of it by itself.
  void expect_builds(const std::vector<tune::Choices>& wanted) {
    const BuildsAhead ahead(builder_, wanted, true);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Built built = ahead.get(i);
      const auto* program = std::get_if<TunedProgramPtr>(&built);
      ASSERT_NE(program, nullptr) << std::get<tune::Failure>(built).why;
      tune::BuiltNetwork own = network_.build(wanted[i]);
      EXPECT_TRUE(std::ranges::equal((*program)->module.bytes, module_bytes(own.module).bytes));
      EXPECT_EQ((*program)->steps, own.steps);
    }
  }
  void wait_until(const std::function<bool()>& condition) {
    const Stopwatch waited;
    while (!condition()) {
      ASSERT_LT(waited.seconds(), 60) << "it does not come";
      builder_.hosts()->tell([this](const std::string& note) { notes_.push_back(note); });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  void wait_for_note(const std::string& words) {
    wait_until([&] {
      return std::ranges::any_of(
          notes_, [&](const std::string& note) { return note.find(words) != std::string::npos; });
    });
  }

  tune::Network network_{network(), compilation()};
  std::vector<std::unique_ptr<Host>> hosts_;
  ProgramBuilder builder_{network_};  ///< goes before the hosts do
  std::vector<std::string> notes_;
};

TEST_F(Hosts, BuildWhatThisMachineWouldBuild) {
  add_host();
  add_host();
  use_hosts();
  wait_until([&] { return builder_.builders() == 3; });
  const std::vector<tune::Choices> wanted = others(8);
  ASSERT_GE(wanted.size(), 4u);
  expect_builds(wanted);
  const BuildCounts counts = builder_.counts();
  EXPECT_GE(counts.elsewhere(), 1u);
  EXPECT_GE(counts.here + counts.elsewhere(), wanted.size() + 1)
      << "and the untuned one, by which they are tried; more where one was late";
}

TEST_F(Hosts, SayWhyDecisionsGiveNoProgram) {
  add_host();
  use_hosts();
  wait_until([&] { return builder_.builders() == 2; });
  tune::Choices misfit = untuned();
  misfit[0] = {"direct", {{"block", 64}, {"rows", 14}}};
  // More than one, so that the host has its part of them.
  tune::Choices unknown = untuned();
  unknown[0] = {"no_such_form", {}};
  const BuildsAhead ahead(builder_, {misfit, unknown, misfit, unknown}, true);
  for (size_t i = 0; i < 4; ++i) {
    const Built built = ahead.get(i);
    const auto* failure = std::get_if<tune::Failure>(&built);
    ASSERT_NE(failure, nullptr);
    EXPECT_NE(failure->outcome, records::Outcome::kMeasured);
    EXPECT_FALSE(failure->why.empty());
  }
}

TEST_F(Hosts, WhatThisMachineLacksIsNotTheChoicesFault) {
  const std::vector<tune::Choices> wanted = others(1);
  ASSERT_EQ(wanted.size(), 1u);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit no_more{3, usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &no_more), 0);
  const BuildsAhead ahead(builder_, wanted, false);
  const std::string of_one = testing::message_of([&] { (void)builder_.built_of(wanted[0]); });
  ::setrlimit(RLIMIT_NOFILE, &usual);
  EXPECT_THAT(of_one, ::testing::HasSubstr("open files"));
  EXPECT_THAT(testing::message_of([&] { (void)ahead.get(0); }), ::testing::HasSubstr("open files"));
}

TEST_F(Hosts, OfOneProgramThatDoesNotFitItIsSaidToo) {
  tune::Choices misfit = untuned();
  misfit[0] = {"direct", {{"block", 64}, {"rows", 14}}};
  const Built built = builder_.built_of(misfit);
  const auto* failure = std::get_if<tune::Failure>(&built);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->outcome, records::Outcome::kMisfit);
  EXPECT_TRUE(std::holds_alternative<TunedProgramPtr>(builder_.built_of(untuned())));
}

TEST_F(Hosts, AHostThatGoesInTheMiddleLosesNoBuild) {
  add_host([](int build, rpc::BuildAnswer&) {
    if (build == 1) throw std::runtime_error("the node is wanted by others");  // the first is the untuned one
  });
  use_hosts();
  wait_until([&] { return builder_.builders() == 2; });
  const std::vector<tune::Choices> wanted = others(6);
  expect_builds(wanted);
  EXPECT_EQ(builder_.counts().elsewhere(), 0u);
  EXPECT_EQ(builder_.counts().here, wanted.size() + 1);
  wait_for_note("the node is wanted by others");
  EXPECT_EQ(builder_.builders(), 1u);
}

TEST_F(Hosts, AHostThatHangsIsNotWaitedFor) {
  std::promise<void> end;
  add_host([ended = end.get_future().share()](int build, rpc::BuildAnswer&) {
    if (build > 0) ended.wait();  // the first is the untuned one
  });
  use_hosts();
  wait_until([&] { return builder_.builders() == 2; });
  const std::vector<tune::Choices> wanted = others(6);
  expect_builds(wanted);
  EXPECT_EQ(builder_.counts().elsewhere(), 0u);
  EXPECT_EQ(builder_.counts().here, wanted.size() + 1);
  end.set_value();
}

TEST_F(Hosts, WhatFailsThereIsTriedHere) {
  add_host([](int build, rpc::BuildAnswer& answer) {
    if (build > 0) answer.failure = {false, "the disk is full"};
  });
  use_hosts();
  wait_until([&] { return builder_.builders() == 2; });
  expect_builds(others(6));
  EXPECT_EQ(builder_.counts().elsewhere(), 0u);
  EXPECT_EQ(builder_.builders(), 2u) << "it is still there";
}

TEST_F(Hosts, AHostThatBuildsSomethingElseIsNotUsed) {
  // The module is whole, but another.
  std::atomic<bool> asked = false;
  const Graph graph = network();
  CompileOptions plain = compilation();
  plain.opt_level = 2;
  ModuleFile file = compile_graph(graph, plain);
  const std::vector<std::byte> other = serialize_module(file);
  add_host([&, other](int, rpc::BuildAnswer& answer) {
    asked = true;
    answer.module = other;
    answer.steps = "";
  });
  use_hosts();
  wait_for_note("another program");
  EXPECT_TRUE(asked);
  expect_builds(others(2));
  EXPECT_EQ(builder_.counts().elsewhere(), 0u);
}

TEST_F(Hosts, AModuleThatIsDamagedOnItsWayIsBuiltAgain) {
  add_host([](int build, rpc::BuildAnswer& answer) {
    if (build > 0) answer.module.back() ^= std::byte{1};  // of a segment, not between two
  });
  use_hosts();
  wait_until([&] { return builder_.builders() == 2; });
  expect_builds(others(4));
  EXPECT_EQ(builder_.counts().elsewhere(), 0u);
  wait_for_note("no module");
}

TEST_F(Hosts, StepsThatAProgramHasNotAreNotBelieved) {
  add_host([](int, rpc::BuildAnswer& answer) {
    for (int i = 0; i < 1000; ++i) answer.steps += "first\n";
  });
  use_hosts();
  wait_for_note("steps compute");
  EXPECT_EQ(builder_.builders(), 1u);
}

TEST_F(Hosts, AnotherGeneratorIsNotUsed) {
  add_host({}, "0.0-other");
  use_hosts();
  wait_for_note("0.0-other");
  expect_builds(others(2));
  EXPECT_EQ(builder_.counts().elsewhere(), 0u);
}

TEST_F(Hosts, ProgramsThatAreKnownAreNotBuiltAgain) {
  const std::vector<tune::Choices> wanted = others(1);
  expect_builds(wanted);
  const size_t built = builder_.counts().here;
  expect_builds(wanted);
  EXPECT_EQ(builder_.counts().here, built);
  EXPECT_EQ(builder_.program_of(wanted[0])->module.bytes.data(),
            builder_.program_of(wanted[0])->module.bytes.data());
  EXPECT_EQ(builder_.counts().here, built);
}

TEST_F(Hosts, CombinedProductsAreAProgramOfTheirOwn) {
  tune::Choices combined = untuned();
  combined.combined = true;
  EXPECT_NE(builder_.program_of(combined), builder_.program_of(untuned()));
  EXPECT_EQ(builder_.counts().here, 2u);
}

}  // namespace
}  // namespace gantry::cli
