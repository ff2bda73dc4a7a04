// Boards with a GPU, with the stand-in for its driver: the server is a process of its own and finds it there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "rpc/client/client.h"
#include "tests/device_runtime/cuda_module.h"
#include "tests/rpc/raw_client.h"
#include "tests/support/server_process.h"
#include "tests/support/system_calls.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using runtime::testing::cuda_module;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ServerProcess;

/// A board whose driver has been told to misbehave in some way.
class GpuBoard {
 public:
  explicit GpuBoard(const char* setting = nullptr, const char* value = "",
                    const std::vector<std::string>& arguments = {}) {
    setenv("LD_LIBRARY_PATH", GANTRY_FAKE_CUDA_DIR, 1);
    if (setting != nullptr) setenv(setting, value, 1);
    server_.emplace(arguments);
    if (setting != nullptr) unsetenv(setting);
    unsetenv("LD_LIBRARY_PATH");
  }
  std::unique_ptr<BoardClient> connect() const {
    ConnectOptions options;
    options.address = server_->address();
    return BoardClient::connect(options);
  }
  const ServerProcess& server() const { return *server_; }

 private:
  std::optional<ServerProcess> server_;
};

LoadedModule load(BoardClient& client) {
  LoadOptions options;
  options.threads = 1;
  options.device = "cuda";
  auto builder = cuda_module();
  builder.segments[0].clear();  // no kernel runs on the CPU
  return client.load(client.upload(builder.write()), options);
}

void set_first(BoardClient& client, const LoadedModule& module, float first) {
  const float values[] = {first, 1, 2, 3};
  const std::int64_t shape[] = {1, 4};
  client.set_input(module.handle, 0, {}, shape, std::as_bytes(std::span(values)));
}

/// The first run launches kernel by kernel, the second replays them.
void run_until_replayed(BoardClient& client, const LoadedModule& module) {
  for (float first : {0.f, 1.f}) {
    set_first(client, module, first);
    client.run(module.handle);
  }
}

std::vector<float> output(BoardClient& client, const LoadedModule& module) {
  const Tensor tensor = client.get_output(module.handle, 0);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

template <typename Function>
Error failure_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kBug, "nothing failed");
}

TEST(GpuBoard, NamesItsGpu) {
  GpuBoard board;
  auto client = board.connect();
  EXPECT_TRUE(client->board_info().gpus.empty());
  const BoardInfo info = client->board_info(/*gpus=*/true);
  ASSERT_EQ(info.gpus.size(), 1u) << info.gpu_problem;
  EXPECT_EQ(info.gpus[0].name, "Fake GPU 0");
  EXPECT_EQ(info.gpus[0].compute_capability, 80u);
  // The session's process has asked a child: its executors can still use the GPU.
  const LoadedModule module = load(*client);
  EXPECT_EQ(module.target, "cuda:sm_80/here");
}

TEST(GpuBoard, SaysWhyItHasNone) {
  GpuBoard board("FAKE_CUDA_DEVICES", "0");
  auto client = board.connect();
  const BoardInfo info = client->board_info(/*gpus=*/true);
  EXPECT_TRUE(info.gpus.empty());
  EXPECT_THAT(info.gpu_problem, HasSubstr("finds no GPU"));
  const Error error = failure_of([&] { load(*client); });
  EXPECT_EQ(error.kind(), ErrorKind::kRequest);
  EXPECT_THAT(error.what(), HasSubstr("finds no GPU"));
}

TEST(GpuBoard, AskingADriverThatIsSilentOutlivesNoSession) {
  const GpuBoard board("FAKE_CUDA_SILENT", "1");
  testing_client::RawClient client(board.server().port());
  wire::GetBoardInfoT request;
  request.gpus = true;
  ASSERT_TRUE(client.send(make_request(request)));
  std::vector<int> processes;
  for (int i = 0; i < 500 && processes.size() < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    processes = board.server().processes();
  }
  ASSERT_EQ(processes.size(), 3u) << "the server, the session, and its child that asks";
  ASSERT_EQ(::kill(processes[1], SIGKILL), 0);
  std::string end;
  try {
    client.receive();
  } catch (const std::runtime_error& error) {
    end = error.what();
  }
  EXPECT_EQ(end, "the board closed the connection") << "the child has it open, too";
  if (HasFailure()) ::kill(processes[2], SIGKILL);
}

TEST(GpuBoard, RunsAndTimesAModule) {
  GpuBoard board;
  auto client = board.connect();
  const LoadedModule module = load(*client);
  set_first(*client, module, 0);
  for (int i = 0; i < 3; ++i) {
    client->run(module.handle);
    EXPECT_THAT(output(*client, module), ElementsAre(1, 4, 9, 16));
  }
  BenchmarkOptions options;
  options.repeat = 5;
  options.profile = true;
  const BenchmarkResult result = client->benchmark(module.handle, options);
  EXPECT_EQ(result.samples_ms.size(), 5u);
  EXPECT_EQ(result.kernels.size(), 2u);
  EXPECT_EQ(result.device_weights_bytes, 4096u * 4);
  EXPECT_EQ(result.device_workspace_bytes, 16u);
}

TEST(GpuBoard, KernelThatFaultsCostsItsSessionAnErrorThatNamesIt) {
  GpuBoard board;
  auto other = board.connect();
  const LoadedModule others = load(*other);
  set_first(*other, others, 0);
  other->run(others.handle);

  auto client = board.connect();
  LoadedModule module = load(*client);
  set_first(*client, module, -5000);
  const Error error = failure_of([&] { client->run(module.handle); });
  EXPECT_EQ(error.kind(), ErrorKind::kBoard);
  EXPECT_THAT(
      error.what(),
      HasSubstr(
          "kernel scale (step #1: test.scale; nodes Mul_1) failed on the GPU: an illegal memory access"));
  EXPECT_THAT(error.what(), Not(HasSubstr("once more")));
  EXPECT_THAT(failure_of([&] { client->run(module.handle); }).what(), HasSubstr("load it first"));

  other->run(others.handle);
  EXPECT_THAT(output(*other, others), ElementsAre(1, 4, 9, 16));
  module = load(*client);
  set_first(*client, module, 0);
  client->run(module.handle);
  EXPECT_THAT(output(*client, module), ElementsAre(1, 4, 9, 16));
}

TEST(GpuBoard, KernelThatFaultsInAReplayIsNamedToo) {
  GpuBoard board;
  auto client = board.connect();
  const LoadedModule module = load(*client);
  run_until_replayed(*client, module);
  set_first(*client, module, -5000);
  const Error error = failure_of([&] { client->run(module.handle); });
  EXPECT_EQ(error.kind(), ErrorKind::kBoard);
  EXPECT_THAT(error.what(), HasSubstr("one of the model's kernels failed on the GPU"));
  EXPECT_THAT(error.what(), HasSubstr("run once more, kernel by kernel: kernel scale (step #1: test.scale; "
                                      "nodes Mul_1) failed on the GPU"));
}

TEST(GpuBoard, KernelNamedByItsFirstRunIsNotLookedForWhereAnotherModuleIsReplayed) {
  GpuBoard board;
  auto client = board.connect();
  const LoadedModule replayed = load(*client);
  run_until_replayed(*client, replayed);
  const LoadedModule module = load(*client);
  set_first(*client, module, -5000);
  const Error error = failure_of([&] { client->run(module.handle); });
  EXPECT_THAT(error.what(), HasSubstr("kernel scale (step #1: test.scale; nodes Mul_1) failed on the GPU"));
  EXPECT_THAT(error.what(), Not(HasSubstr("once more")));
}

TEST(GpuBoard, KernelThatHangsIsStoppedAndNamed) {
  GpuBoard board("FAKE_CUDA_HANG", "2");
  auto client = board.connect();
  const LoadedModule module = load(*client);
  set_first(*client, module, 0);
  const Error error = failure_of([&] { client->run(module.handle, std::chrono::milliseconds(300)); });
  EXPECT_EQ(error.kind(), ErrorKind::kBoard);
  EXPECT_THAT(error.what(), HasSubstr("stopped in kernel scale (step #1: test.scale; nodes Mul_1)"));
  EXPECT_THAT(error.what(), HasSubstr("deadline"));
}

TEST(GpuBoard, KernelThatHangsInAReplayIsNamedToo) {
  GpuBoard board;
  auto client = board.connect();
  LoadedModule module = load(*client);
  for (float first : {0.f, 1.f, 2e6f}) {
    set_first(*client, module, first);
    if (first < 2) client->run(module.handle);
  }
  const Error error = failure_of([&] { client->run(module.handle, std::chrono::milliseconds(300)); });
  EXPECT_THAT(error.what(), HasSubstr("stopped in kernel one of 2 steps"));
  EXPECT_THAT(error.what(),
              HasSubstr("once more, kernel by kernel: the module was stopped in kernel add_one"));
  module = load(*client);
  set_first(*client, module, 0);
  client->run(module.handle);
}

TEST(GpuBoard, SaysWhatTheDriverHasAgainstACode) {
  GpuBoard board;
  auto client = board.connect();
  auto builder = cuda_module();
  builder.set_ptx("bad");
  LoadOptions options;
  options.device = "cuda";
  const Error error = failure_of([&] { client->load(client->upload(builder.write()), options); });
  EXPECT_EQ(error.kind(), ErrorKind::kRequest);
  EXPECT_THAT(error.what(), HasSubstr("this is bad"));
}

const std::vector<std::string> kLittleMemory = {"--session-memory", "256MiB"};

/// Whether a module of this session can have that much memory, by a kernel that asks the system for it.
bool can_have(BoardClient& client, std::uint64_t bytes) {
  const std::string numbers = std::to_string(SYS_mmap) + ", 0, " + std::to_string(bytes) + "ul, " +
                              std::to_string(PROT_READ | PROT_WRITE) + ", " +
                              std::to_string(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE) + ", -1, 0";
  const auto module = testing::build(
      {.body = testing::with_system_calls("long at = call(" + numbers +
                                          "); out[0] = at < 0 && at > -4096 ? 0 : 1; return 0;")});
  const LoadedModule loaded = client.load(client.upload(module), {.threads = 1});
  const float values[] = {0, 0, 0, 0};
  const std::int64_t shape[] = {4};
  client.set_input(loaded.handle, 0, {}, shape, std::as_bytes(std::span(values)));
  client.run(loaded.handle);
  return output(client, loaded)[0] != 0;
}

void expect_still_bounded(const GpuBoard& board, const char* why) {
  auto client = board.connect();
  const Error error = failure_of([&] { load(*client); });
  EXPECT_EQ(error.kind(), ErrorKind::kRequest);
  EXPECT_THAT(error.what(), HasSubstr(why));
  EXPECT_TRUE(can_have(*client, 64u << 20));
  EXPECT_FALSE(can_have(*client, 1u << 30)) << "more than the session's memory";
}

TEST(GpuBoard, AskingForAGpuThatIsNotThereLiftsNoLimit) {
  expect_still_bounded(GpuBoard("FAKE_CUDA_DEVICES", "0", kLittleMemory), "finds no GPU");
}

TEST(GpuBoard, AskingForAGpuThatTheModuleIsNotForLiftsNoLimit) {
  expect_still_bounded(GpuBoard("FAKE_CUDA_CAPABILITY", "70", kLittleMemory), "needs a GPU with sm_80");
}

TEST(GpuBoard, AskingForAGpuWithoutADriverLiftsNoLimit) {
  ::setenv("LD_LIBRARY_PATH", "/nonexistent", 1);
  const ServerProcess server(kLittleMemory);
  ::unsetenv("LD_LIBRARY_PATH");
  ConnectOptions options;
  options.address = server.address();
  auto client = BoardClient::connect(options);
  if (!client->board_info(/*gpus=*/true).gpus.empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(failure_of([&] { load(*client); }).kind(), ErrorKind::kRequest);
  LoadOptions for_gpu;
  for_gpu.device = "cuda";
  EXPECT_EQ(failure_of([&] { client->load(client->upload(testing::build({})), for_gpu); }).kind(),
            ErrorKind::kRequest)
      << "it has no code for one either";
  EXPECT_TRUE(can_have(*client, 64u << 20));
  EXPECT_FALSE(can_have(*client, 1u << 30));
}

TEST(GpuBoard, WithAGpuMemoryIsBoundedAtTheDriversNeeds) {
  const GpuBoard board(nullptr, "", kLittleMemory);
  auto client = board.connect();
  EXPECT_FALSE(can_have(*client, 1u << 30)) << "before";
  load(*client);
  EXPECT_TRUE(can_have(*client, 1u << 30));
  EXPECT_FALSE(can_have(*client, std::uint64_t{8} << 30));
}

}  // namespace
}  // namespace gantry::rpc
