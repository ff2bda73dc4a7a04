// Ctrl-C and its like at any moment: what was there before is whole, and nothing new is left.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "device_runtime/src/module_format.h"
#include "tests/cli/gantry_process.h"

namespace gantry::testing {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

constexpr int kMoments = 20;

/// From the environment, to try the moments of a failed test again.
unsigned seed() {
  const char* given = std::getenv("GANTRY_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
}

/// Whether a process is there and no zombie.
bool is_alive(int pid) {
  const std::string stat = contents("/proc/" + std::to_string(pid) + "/stat");
  const size_t end = stat.rfind(')');
  return end != std::string::npos && stat[end + 2] != 'Z' && stat[end + 2] != 'X';
}

/// Whether a process runs in that folder, as this machine's gantry-device does.
bool anything_runs_in(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    std::error_code code;
    if (pid > 0 && fs::read_symlink(entry.path() / "cwd", code) == folder && is_alive(pid)) return true;
  }
  return false;
}

class Interrupt : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(folders_.run({"zoo", "lstm", "-o", "m.onnx", "--size", "2"}).code, 0);
    ASSERT_EQ(folders_.run({"compile", "m.onnx"}).code, 0);
  }

  void expect_nothing_left(const std::vector<std::string>& before) const {
    EXPECT_EQ(files_below(folders_.work()), before);
    for (int i = 0; i < 500 && anything_runs_in(folders_.work()); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(anything_runs_in(folders_.work()));
    EXPECT_EQ(files_below(folders_.temporary()), std::vector<std::string>());
    for (const std::string& name : files_below(folders_.cache())) {
      const bool is_whole_entry =
          fs::path(name).extension() == ".kernel" ||
          (name == "core-pulses.json" && nlohmann::json::accept(contents(folders_.cache() / name)));
      EXPECT_TRUE(is_whole_entry || fs::is_directory(folders_.cache() / name)) << name;
    }
  }

  /// Runs the command once undisturbed; then again and again, a signal at a random moment of each. `output`
  /// is old before each, and old or as it was after the undisturbed run (`is_new`) afterwards.
  /// The arguments are asked for before each.
  template <typename IsNew>
  void interrupt(const std::function<Arguments()>& arguments, const std::string& output,
                 const std::string& old, IsNew is_new) {
    const auto reset = [&] {
      if (!output.empty()) folders_.write(output, old);
      fs::remove_all(folders_.cache() / "kernels");
    };
    reset();
    const Arguments first = arguments();
    const auto started = Clock::now();
    const Outcome undisturbed = folders_.run(first);
    ASSERT_EQ(undisturbed.code, 0) << undisturbed.err;
    const auto duration = std::min(std::chrono::duration<double>(Clock::now() - started).count(), longest_s_);
    const auto before = files_below(folders_.work());
    const unsigned chosen = seed();
    std::cout << "seed " << chosen << ", moments up to " << duration << " s" << std::endl;
    std::mt19937 random(chosen);
    std::uniform_real_distribution<double> moment(0, duration);
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    int interrupted = 0;
    for (int i = 0; i < kMoments; ++i) {
      const double seconds = moment(random);
      const int number = signals[i % 3];
      SCOPED_TRACE(::testing::Message() << "signal " << number << " after " << seconds << " s");
      reset();
      const int pid = folders_.start(arguments());
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      ::kill(pid, number);
      const Outcome outcome = folders_.wait(pid);
      EXPECT_TRUE(outcome.signal == number || outcome.code == 0) << outcome.code << " " << outcome.err;
      interrupted += outcome.signal == number ? 1 : 0;
      EXPECT_THAT(outcome.err, ::testing::Not(::testing::HasSubstr("gantry: error")))
          << "what ends with the process is no error";
      expect_nothing_left(before);
      if (output.empty()) continue;
      const std::string now = contents(folders_.path(output));
      EXPECT_TRUE((outcome.code != 0 && now == old) || is_new(now));
    }
    EXPECT_GT(interrupted, 0);
  }

  /// A measurement that takes as little time as one can.
  static std::function<Arguments()> bench_briefly(const std::string& result) {
    return [result] {
      return Arguments{"bench",    "m.onnx", "--processes", "1", "--repeat", "5",
                       "--number", "1",      "--warmup",    "1", "--json",   result};
    };
  }

  GantryFolders folders_;
  double longest_s_ = 100;  ///< after which no signal comes
};

TEST_F(Interrupt, CompileKeepsTheOldModule) {
  const std::string old(reinterpret_cast<const char*>(module_format::kMagic), sizeof module_format::kMagic);
  const std::string whole = contents(folders_.path("m.gmod"));
  interrupt(
      [] {
        return Arguments{"compile", "m.onnx", "-o", "out.gmod"};
      },
      "out.gmod", old + "old", [&](const std::string& now) { return now == whole; });
}

TEST_F(Interrupt, BenchKeepsTheOldResult) {
  interrupt(bench_briefly("r.json"), "r.json", R"({"schema": "gantry-bench", "old": true})",
            [](const std::string& now) {
              const auto json = nlohmann::json::parse(now, nullptr, false);
              return json.is_object() && json.contains("processes");
            });
}

bool is_comparison(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  return json.is_object() && json.contains("verdict");
}

TEST_F(Interrupt, CompareKeepsTheOldComparison) {
  for (const char* result : {"a.json", "b.json"}) ASSERT_EQ(folders_.run(bench_briefly(result)()).code, 0);
  interrupt(
      [] {
        return Arguments{"compare", "a.json", "b.json", "--json", "c.json"};
      },
      "c.json", R"({"schema": "gantry-comparison", "old": true})", is_comparison);
}

TEST_F(Interrupt, AComparisonThatMeasuresEndsItsProcesses) {
  const std::string old = R"({"schema": "gantry-comparison", "old": true})";
  longest_s_ = 1;  // well before it is done
  interrupt(
      [] {
        return Arguments{"compare", "m.gmod", "m.gmod", "--rounds", "3", "--warmup", "1", "--json", "c.json"};
      },
      "c.json", old, is_comparison);
}

/// x (1, n) times weights (n, n), f32: takes longer to send than to compile.
std::string large_model(int n) {
  const std::string width = "dim { dim_value: " + std::to_string(n) + " }";
  const std::string type =
      "type { tensor_type { elem_type: 1 shape { dim { dim_value: 1 } " + width + " } } }";
  const std::string dims = "dims: " + std::to_string(n) + " ";
  onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 8 opset_import { version: 16 } graph { name: 'g' "
      "node { op_type: 'MatMul' input: 'x' input: 'w' output: 'y' } input { name: 'x' " +
          type + " } output { name: 'y' " + type + " } initializer { name: 'w' data_type: 1 " + dims + dims +
          "} }",
      &model));
  model.mutable_graph()->mutable_initializer(0)->set_raw_data(
      std::string(static_cast<size_t>(n) * static_cast<size_t>(n) * 4, '\x11'));
  return model.SerializeAsString();
}

TEST_F(Interrupt, AnUploadKeepsTheOldOutputAndTheBoardServesOn) {
  folders_.write("large.onnx", large_model(1536));
  ASSERT_EQ(folders_.run({"compile", "large.onnx", "--precision", "fp32"}).code, 0);
  std::optional<ServerProcess> server;  // a new one each time, which has nothing yet
  const auto run = [&] {
    if (!server) server.emplace();
    return Arguments{"run", "large.gmod", "--random", "--on", server->address(), "--output", "y.npy"};
  };
  ASSERT_EQ(folders_.run(run()).code, 0);
  const std::string whole = contents(folders_.path("y.npy"));
  interrupt(
      [&] {
        server.reset();
        return run();
      },
      "y.npy", "\x93NUMPY old", [&](const std::string& now) { return now == whole; });
  EXPECT_EQ(folders_.run(run()).code, 0) << "the board that was left serves on";
  EXPECT_EQ(contents(folders_.path("y.npy")), whole);
}

TEST_F(Interrupt, AnIgnoredHangUpStaysIgnored) {
  const int pid = folders_.start(
      {"bench", "m.gmod", "--processes", "1", "--repeat", "10", "--warmup", "1", "--cooldown-ms", "50"}, -1,
      SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ::kill(pid, SIGHUP);
  EXPECT_EQ(folders_.wait(pid).code, 0);
}

TEST_F(Interrupt, TheAssemblerOfAGpuDiesToo) {
  const fs::path script = folders_.write("ptxas", R"(#!/bin/sh
touch "$TMPDIR/of-ptxas"
sleep 100 &
echo $$ $! > started.part && mv started.part started
wait
)");
  fs::permissions(script, fs::perms(0700));
  ::setenv("GANTRY_PTXAS", script.c_str(), 1);
  const int pid = folders_.start({"compile", "m.onnx", "--target", "cuda:sm_80", "-o", "gpu.gmod"});
  ::unsetenv("GANTRY_PTXAS");
  for (int i = 0; i < 6000 && !fs::exists(folders_.path("started")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(fs::is_empty(folders_.temporary()));
  ::kill(pid, SIGTERM);
  const Outcome outcome = folders_.wait(pid);
  EXPECT_EQ(outcome.signal, SIGTERM) << outcome.err;
  int assembler = 0, its_child = 0;
  std::ifstream(folders_.path("started")) >> assembler >> its_child;
  ASSERT_GT(its_child, 0);
  EXPECT_FALSE(is_alive(assembler));
  for (int i = 0; i < 1000 && is_alive(its_child); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(is_alive(its_child));
  EXPECT_TRUE(fs::is_empty(folders_.temporary()));
  EXPECT_FALSE(fs::exists(folders_.path("gpu.gmod")));
}

}  // namespace
}  // namespace gantry::testing
