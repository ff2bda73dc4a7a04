// `gantry farm build`, the job of a compile host, beside commands of Slurm's that only write down what they
// were asked.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <thread>

#include "host/codegen/find_target.h"
#include "host/farm/lease_machine.h"
#include "host/ops/op.h"
#include "host/records/generator.h"
#include "host/support/mapped_file.h"
#include "host/support/temporary.h"
#include "host/tune/network.h"
#include "rpc/builds/build_client.h"
#include "rpc/error.h"
#include "tests/support/small_weights.h"

namespace gantry {
namespace {

using ::testing::HasSubstr;

tune::Network network() {
  const std::string text =
      "fn @main(%x: Tensor[(4, 64), f32]) -> Tensor[(4, 32), f32] {\n"
      "  %y = nn.dense(%x, @w: Tensor[(64, 32), f32], units=32)  // fc\n  return %y\n}\n";
  CompileOptions options;
  options.targets = {find_target("x86-64-v3")};
  return {parse_graph(text, op_set(), {{"w", testing::small_weights({64, 32})}}), std::move(options)};
}

class BuildJob : public ::testing::Test {
 protected:
  void SetUp() override {
    put("sinfo", "echo 127.0.0.1");
    const std::string said = (folder_.path() / "said").string();
    put("scontrol", "printf '%s\\n' \"$@\" > " + said + ".new && mv " + said + ".new " + said);
    const std::string key = rpc::key_file_text(key_);
    environment_ = {{"GANTRY_LEASE", "lease-7"},
                    {"GANTRY_LEASE_KEY", key.substr(0, key.find('\n'))},
                    {"SLURM_JOB_ID", "7"},
                    {"SLURMD_NODENAME", "n1"},
                    {"SLURM_CPUS_ON_NODE", "1"}};
  }
  void TearDown() override {
    if (job_ > 0) end(SIGKILL);
  }
  void put(const std::string& name, const std::string& command) const {
    const std::filesystem::path program = folder_.path() / name;
    std::ofstream(program) << "#!/bin/sh\n" << command << "\n";
    ASSERT_EQ(::chmod(program.c_str(), 0700), 0);
  }
  std::string text_of(const char* name) const {
    std::ifstream file(folder_.path() / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void start() {
    job_ = ::fork();
    ASSERT_GE(job_, 0);
    if (job_ > 0) return;
    const char* path = std::getenv("PATH");
    ::setenv("PATH", (folder_.path().string() + ":" + (path == nullptr ? "" : path)).c_str(), 1);
    ::setenv("TMPDIR", folder_.path().c_str(), 1);  // a killed job leaves its folder
    for (const auto& [name, value] : environment_) ::setenv(name.c_str(), value.c_str(), 1);
    const int errors = ::open((folder_.path() / "errors").c_str(), O_WRONLY | O_CREAT, 0600);
    if (errors < 0 || ::dup2(errors, STDERR_FILENO) < 0) ::_exit(99);
    ::execl(GANTRY_PROGRAM, "gantry", "farm", "build", static_cast<char*>(nullptr));
    ::_exit(99);
  }
  /// Its status; `number`: a signal, 0: it ends by itself.
  int end(int number) {
    if (number != 0) ::kill(job_, number);
    int status = 0;
    EXPECT_EQ(::waitpid(job_, &status, 0), job_);
    job_ = -1;
    return status;
  }
  /// HOST:PORT, by the comment of the job.
  std::string address() {
    const std::filesystem::path said = folder_.path() / "said";
    for (int i = 0; i < 6000 && !std::filesystem::exists(said); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::string text = text_of("said");
    EXPECT_THAT(text, HasSubstr("update\nJobId=7\n"));
    constexpr std::string_view kComment = "Comment=";
    const size_t at = text.find(kComment);
    if (at == std::string::npos) return "";
    const auto comment = farm::parse_comment(
        std::string_view(text).substr(at + kComment.size(), text.find('\n', at) - at - kComment.size()));
    if (!comment) return "";
    EXPECT_EQ(comment->lease, "lease-7");
    return comment->address;
  }
  rpc::BuildClientOptions client_options() {
    rpc::BuildClientOptions options;
    options.address = address();
    options.key = key_;
    options.generator = records::generator_version();
    return options;
  }

  TemporaryFolder folder_{"job"};
  rpc::PskKey key_ = rpc::generate_key("lease-7");
  std::map<std::string, std::string> environment_;
  pid_t job_ = -1;
};

TEST_F(BuildJob, SaysWhereItIsAndBuildsUntilItIsKilled) {
  start();
  const rpc::BuildClientOptions options = client_options();
  EXPECT_THAT(options.address, ::testing::StartsWith("127.0.0.1:")) << text_of("errors");
  rpc::BuildClient client(options);
  client.connect();
  const tune::Network tuned = network();
  const tune::PackedModel packed = tuned.pack(folder_.path() / "model");
  const MappedFile model(folder_.path() / "model");
  client.put_model(packed.options, std::as_bytes(std::span(model.data(), model.size())), packed.text_size);
  tune::Choices choices;
  for (const tune::Task& task : tuned.tasks()) choices.push_back(task.untuned);
  const rpc::BuildAnswer answer = client.build(tuned.decisions_text(choices));
  ASSERT_FALSE(answer.failure) << answer.failure->why;
  tune::BuiltNetwork own = tuned.build(choices);
  EXPECT_EQ(answer.module, serialize_module(own.module));
  EXPECT_EQ(tuned.steps_of(tune::parse_step_text(answer.steps, 100)), own.steps);
  const rpc::BuildAnswer none = client.build("nn.dense {form=no_such_form}  // fc\n");
  ASSERT_TRUE(none.failure);
  EXPECT_THAT(none.failure->why, HasSubstr("no_such_form"));
  const int status = end(SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(status));
  try {
    client.build(tuned.decisions_text(choices));
    ADD_FAILURE() << "it builds on";
  } catch (const rpc::Error& error) {
    EXPECT_EQ(error.kind(), rpc::ErrorKind::kReconnect) << error.what();
  }
}

TEST_F(BuildJob, RefusesWhoHasNotTheLeasesKey) {
  start();
  rpc::BuildClientOptions options = client_options();
  options.key = rpc::generate_key("lease-7");
  rpc::BuildClient client(options);
  EXPECT_THROW(client.connect(), rpc::Error);
  rpc::BuildClient other(client_options());
  EXPECT_NO_THROW(other.connect());
}

TEST_F(BuildJob, IsNoCommandForPeople) {
  environment_.erase("GANTRY_LEASE");
  ::unsetenv("GANTRY_LEASE");
  start();
  const int status = end(0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(text_of("errors"), HasSubstr("GANTRY_LEASE"));
}

}  // namespace
}  // namespace gantry
