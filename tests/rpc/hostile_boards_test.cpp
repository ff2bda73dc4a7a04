// Boards that announce, send or say what no honest one does, and the client that must bear it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <limits>

#include "rpc/client/convert.h"
#include "tests/support/fake_board.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using ::testing::AllOf;
using testing::FakeBoard;
using testing::FramePeer;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHostile[] = "evil\x1b[2J\n\u009b1m\u202e";
constexpr char kVisible[] = "evil\\u001b[2J\\n\\u009b1m\\u202e";

/// Addresses that this process has reserved, GiB.
double reserved_gib() {
  std::ifstream status("/proc/self/statm");
  double pages = 0;
  status >> pages;
  return pages * 4096 / (1u << 30);
}

wire::ModuleLoadedT loaded_with_output(std::vector<std::int64_t> shape) {
  wire::ModuleLoadedT loaded;
  loaded.handle = 1;
  auto& output = *loaded.outputs.emplace_back(std::make_unique<wire::TensorDescriptionT>());
  output.type = std::make_unique<wire::ElementType>(2, 32);
  output.shape = std::move(shape);
  return loaded;
}

wire::OutputT output_of(std::vector<std::int64_t> shape) {
  wire::OutputT output;
  output.type = std::make_unique<wire::ElementType>(2, 32);
  output.byte_size = dense_bytes(32, shape);
  output.shape = std::move(shape);
  return output;
}

const std::vector<std::byte> kModule(100);

TEST(HostileBoards, AnOutputThatIsMerelyAnnouncedCostsNoMemory) {
  std::atomic<bool> announced = false, measured = false;
  FakeBoard board([&](FramePeer& peer) {
    FakeBoard::answer(peer, loaded_with_output({-1}));
    const std::uint32_t id = FakeBoard::next_request(peer);
    peer.send(encode_response(id, make_response(output_of({std::int64_t{1} << 30}))));
    peer.send_data(id, std::vector<std::byte>(1000));
    announced = true;
    while (!measured) std::this_thread::yield();
  });
  const LoadedModule module = board.client->load_whole(kModule);
  const double before = reserved_gib();
  double grown = 0;
  std::jthread observer([&] {
    while (!announced) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    grown = reserved_gib() - before;
    measured = true;
  });
  EXPECT_THROW(board.client->get_output(module.handle, 0), Error) << "the board went";
  observer.join();
  EXPECT_LT(grown, 1) << "GiB; the board announced 4";
}

TEST(HostileBoards, AnOutputThatTheModuleDoesNotHaveIsNotTaken) {
  const auto refused = [](const std::vector<std::int64_t>& shape, const char* what) {
    FakeBoard board([&](FramePeer& peer) {
      FakeBoard::answer(peer, loaded_with_output({-1, 4}));
      const std::uint32_t id = FakeBoard::next_request(peer);
      const wire::OutputT output = output_of(shape);
      peer.send(encode_response(id, make_response(output)));
      peer.send_data(id, std::vector<std::byte>(output.byte_size));
      FakeBoard::answer(peer, wire::PongT{});
    });
    const LoadedModule module = board.client->load_whole(kModule);
    try {
      board.client->get_output(module.handle, 0);
      FAIL() << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBoard);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("board pi:7453"), HasSubstr(what)));
    }
    EXPECT_GT(board.client->ping().count(), 0) << "its bytes were skipped";
  };
  refused({2, 1000}, "output 0 of 8000 bytes");
  refused({0}, "output 0 of 0 bytes");
}

/// A module whose kernel nobody runs.
std::vector<std::byte> module_to_send() {
  return testing::build({}, std::vector<std::byte>(64));
}

/// Answers to what is asked before the first of its two segments comes: none of them is there.
void answer_query(FramePeer& peer, wire::BoardDescriptionT board) {
  FakeBoard::answer(peer, std::move(board));
  wire::SegmentStatesT states;
  states.held = {0, 0};
  FakeBoard::answer(peer, std::move(states));
}

TEST(HostileBoards, AnUploadIsNotAwaitedForEver) {
  const auto serve = [](FramePeer& peer) {
    wire::BoardDescriptionT description;
    description.deadline_ms = 1;
    answer_query(peer, std::move(description));
    while (peer.receive()) continue;  // until the client goes
  };
  ConnectOptions options;
  options.request_timeout = std::chrono::milliseconds(1000);
  FakeBoard board(serve, /*welcome=*/true, options);
  EXPECT_EQ(board.client->board_info().deadline_ms, 1u);
  try {
    board.client->upload(module_to_send());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kReconnect);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("board pi:7453"), HasSubstr("no answer to an upload within")));
  }
}

TEST(HostileBoards, TextsOfABoardCannotMoveACursor) {
  wire::BoardDescriptionT board;
  board.version = board.hostname = board.system = board.architecture = board.cpu = board.llvm_cpu = kHostile;
  board.gpu_problem = kHostile;
  board.features = {kHostile};
  auto& gpu = *board.gpus.emplace_back(std::make_unique<wire::GpuDescriptionT>());
  gpu.name = gpu.driver = kHostile;
  const BoardInfo info = from_wire(std::move(board));
  for (const std::string& text :
       {info.version, info.hostname, info.system, info.architecture, info.cpu, info.llvm_cpu,
        info.gpu_problem, info.features.at(0), info.gpus.at(0).name, info.gpus.at(0).driver})
    EXPECT_EQ(text, kVisible);
}

TEST(HostileBoards, TextsOfAModuleCannotMoveACursor) {
  wire::ModuleLoadedT module;
  module.target = module.precision = kHostile;
  const LoadedModule loaded = from_wire(std::move(module));
  EXPECT_EQ(loaded.target, kVisible);
  EXPECT_EQ(loaded.precision, kVisible);
  wire::BenchmarkFinishedT finished;
  finished.target = kHostile;
  finished.probe_notes = {kHostile};
  finished.cpu_before = std::make_unique<wire::CpuStateT>();
  finished.cpu_before->governor = kHostile;
  auto& kernel = *finished.kernels.emplace_back(std::make_unique<wire::KernelTimingT>());
  kernel.name = kernel.origin = kernel.symbol = kernel.op = kHostile;
  const BenchmarkResult result = from_wire(std::move(finished));
  const KernelTiming& row = result.kernels.at(0);
  for (const std::string& text : {result.target, result.probe_notes.at(0), result.cpu_before.governor,
                                  row.name, row.origin, row.symbol, row.op})
    EXPECT_EQ(text, kVisible);
}

TEST(HostileBoards, MessagesOfFailuresCannotMoveACursor) {
  FakeBoard board([](FramePeer& peer) {
    wire::FailureT failure;
    failure.kind = wire::FailureKind::Board;
    failure.message = kHostile;
    FakeBoard::answer(peer, std::move(failure));
  });
  try {
    board.client->ping();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(kVisible), Not(HasSubstr("\x1b"))));
  }
}

TEST(HostileBoards, AVersionThatNobodyOfferedIsRefused) {
  const auto choose_seven = [](FramePeer& peer) {
    wire::WelcomeT welcome;
    welcome.version = 7;
    FakeBoard::answer(peer, std::move(welcome));
  };
  try {
    FakeBoard board(choose_seven, /*welcome=*/false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), 2);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("board pi:7453"), HasSubstr("version 7")));
  }
}

/// What a client says of such a result.
Error complaint_about(const wire::BenchmarkFinishedT& finished) {
  FakeBoard board([&](FramePeer& peer) { FakeBoard::answer(peer, finished); });
  try {
    board.client->benchmark(1, {});
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kRetry, "nothing");
}

TEST(HostileBoards, FiguresThatNobodyMeasuresAreRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  wire::BenchmarkFinishedT good;
  good.samples_ms = {1, 2};
  good.started_ms = {0, 1};
  good.kernels.push_back(std::make_unique<wire::KernelTimingT>());
  const auto refused = [&](auto change, const char* why) {
    wire::BenchmarkFinishedT finished = good;
    change(finished);
    const Error error = complaint_about(finished);
    EXPECT_EQ(error.kind(), ErrorKind::kBug) << why;
    EXPECT_THAT(error.what(), AllOf(HasSubstr("board pi:7453"), HasSubstr(why)));
  };
  refused([&](auto& f) { f.samples_ms[1] = kNan; }, "a sample");
  refused([&](auto& f) { f.samples_ms[0] = -1; }, "a sample");
  refused([&](auto& f) { f.started_ms[0] = kInfinity; }, "the start of a sample");
  refused([&](auto& f) { f.median_ms = kNan; }, "a statistic");
  refused([&](auto& f) { f.runs_per_second = kInfinity; }, "a statistic");
  refused([&](auto& f) { f.kernels[0]->flops = kNan; }, "a kernel's");
  refused([&](auto& f) { f.kernels[0]->symbol = "k", f.kernels[0]->step = UINT32_MAX; }, "that no plan has");
  refused([&](auto& f) { f.samples_ms.clear(); }, "no sample");
  const auto pulses = [&](const std::vector<double>& at_ms, const std::vector<double>& values) {
    refused([&](auto& f) { f.pulse_at_ms = at_ms, f.pulse_values = f.pulse_lowest = values; }, "pulse");
  };
  refused([&](auto& f) { f.pulse_at_ms = {0}, f.pulse_values = {1}; }, "pulse");
  refused([&](auto& f) { f.pulse_at_ms = {0}, f.pulse_values = {1}, f.pulse_lowest = {2}; }, "pulse");
  pulses({0}, {1, 1});
  pulses({0, kNan}, {1, 1});
  pulses({2, 1}, {1, 1});
  pulses({0, 1}, {1, 0});
  pulses({0, 1}, {kInfinity, 1});
  refused(
      [&](auto& f) {
        f.cpu_during = std::make_unique<wire::CpuStateT>();
        f.cpu_during->temperature_celsius = kInfinity;
      },
      "an infinite reading");
  refused(
      [&](auto& f) {
        f.cpu_after = std::make_unique<wire::CpuStateT>();
        f.cpu_after->frequency_mhz = {kNan};
      },
      "a clock");
}

TEST(HostileBoards, InstructionsOfMoreStepsThanAModuleHasAreRefused) {
  wire::BenchmarkFinishedT finished;
  finished.step_instructions = {5, 7};
  finished.instructions_problem = "none \x1b[2J";
  const BenchmarkResult result = from_wire(wire::BenchmarkFinishedT(finished));
  EXPECT_EQ(result.step_instructions, (std::vector<std::uint64_t>{5, 7}));
  EXPECT_EQ(result.instructions_problem.find('\x1b'), std::string::npos);
  finished.step_instructions.resize((std::size_t{1} << 18) + 1);
  EXPECT_THROW(from_wire(std::move(finished)), Error);
}

/// Two steps, which two threads computed.
wire::TimelineT sound_timeline() {
  wire::TimelineT timeline;
  timeline.run_ns = 1000;
  for (const char* name : {"thread 0", "thread 1"}) {
    auto& thread = *timeline.threads.emplace_back(std::make_unique<wire::TimelineThreadT>());
    thread.name = name;
  }
  timeline.threads[1]->cpu = 3;
  timeline.steps = {{0, 400}, {400, 1000}};
  timeline.spans = {{0, 0, 0, 350}, {0, 1, 410, 1000}, {1, 0, 50, 390}};
  return timeline;
}

BenchmarkResult received(wire::TimelineT timeline) {
  wire::BenchmarkFinishedT finished;
  finished.timeline = std::make_unique<wire::TimelineT>(std::move(timeline));
  return from_wire(std::move(finished));
}

TEST(Timelines, ArriveAsTheyWereMeasured) {
  const BenchmarkResult result = received(sound_timeline());
  ASSERT_TRUE(result.timeline);
  EXPECT_DOUBLE_EQ(result.timeline->run_ms, 0.001);
  ASSERT_EQ(result.timeline->threads.size(), 2u);
  EXPECT_EQ(result.timeline->threads[0].cpu, std::nullopt);
  EXPECT_EQ(result.timeline->threads[1].cpu, 3);
  ASSERT_EQ(result.timeline->steps.size(), 2u);
  EXPECT_DOUBLE_EQ(result.timeline->steps[1].begin_us, 0.4);
  ASSERT_EQ(result.timeline->spans.size(), 3u);
  EXPECT_EQ(result.timeline->spans[2].thread, 1u);
  EXPECT_DOUBLE_EQ(result.timeline->spans[2].end_us, 0.39);
  EXPECT_FALSE(from_wire(wire::BenchmarkFinishedT()).timeline) << "from a board that does not know them";
}

TEST(HostileBoards, NamesOfThreadsCannotMoveACursor) {
  wire::TimelineT timeline = sound_timeline();
  timeline.threads[0]->name = kHostile;
  EXPECT_EQ(received(std::move(timeline)).timeline->threads[0].name, kVisible);
}

TEST(HostileBoards, TimelinesThatNoRunHasAreRefused) {
  const auto refused = [](auto change, const char* why) {
    wire::BenchmarkFinishedT finished;
    finished.samples_ms = {1};
    finished.timeline = std::make_unique<wire::TimelineT>(sound_timeline());
    change(*finished.timeline);
    const Error error = complaint_about(finished);
    EXPECT_EQ(error.kind(), ErrorKind::kBug) << why;
    EXPECT_THAT(error.what(), AllOf(HasSubstr("board pi:7453"), HasSubstr(why)));
  };
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  refused([](auto& t) { t.run_ns = -1; }, "of no time");
  refused([](auto& t) { t.run_ns = kFar; }, "of no time");
  refused([](auto& t) { t.steps[1] = {500, 400}; }, "a step lies outside");
  refused([](auto& t) { t.steps[0] = {-1, 400}; }, "a step lies outside");
  refused([](auto& t) { t.steps[1] = {400, 1001}; }, "a step lies outside");
  refused([](auto& t) { t.spans[0] = {2, 0, 0, 1}; }, "thread or step that there is not");
  refused([](auto& t) { t.spans[0] = {0, 2, 0, 1}; }, "thread or step that there is not");
  refused([](auto& t) { t.spans[1] = {0, 1, 500, kFar}; }, "outside of its run");
  refused([](auto& t) { t.spans[1] = {0, 1, 340, 1000}; }, "two things at once");
  refused([](auto& t) { std::swap(t.spans[1], t.spans[2]); }, "two things at once");
}

TEST(HostileBoards, TimelinesLongerThanABoardMakesThemAreRefused) {
  const auto refused = [](auto change) {
    wire::TimelineT timeline = sound_timeline();
    change(timeline);
    EXPECT_THROW(received(std::move(timeline)), Error);
  };
  constexpr std::size_t kMost = std::size_t{1} << 18;
  refused([](auto& t) { t.steps.resize(kMost + 1); });
  refused([](auto& t) { t.spans.assign(kMost + 1, {1, 0, 50, 50}); });
  refused([](auto& t) {
    while (t.threads.size() <= kMaxCpus) t.threads.push_back(std::make_unique<wire::TimelineThreadT>());
  });
}

}  // namespace
}  // namespace gantry::rpc
