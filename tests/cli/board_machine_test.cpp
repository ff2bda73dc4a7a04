// Boards that say of a module what its file does not: what is read and sent would go by their words.
#include "host/cli/board_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "tests/device_runtime/module_builder.h"
#include "tests/support/fake_board.h"

namespace gantry::cli {
namespace {

using runtime::ElementType;
using testing::FakeBoard;
using testing::FramePeer;
using ::testing::HasSubstr;

/// in: i4 (N, 4), out: bf16 (N, 4).
runtime::SharedBytes small_module() {
  runtime::testing::ModuleBuilder builder = runtime::testing::symbolic_module();
  builder.manifest.inputs[0]->dtype = static_cast<module_format::DType>(ElementType::kI4);
  builder.manifest.outputs[0]->dtype = static_cast<module_format::DType>(ElementType::kBF16);
  return runtime::testing::share(builder.write());
}

std::unique_ptr<rpc::wire::TensorDescriptionT> tensor(const std::string& name, rpc::wire::ElementType type,
                                                      std::vector<int64_t> shape) {
  auto made = std::make_unique<rpc::wire::TensorDescriptionT>();
  made->name = name;
  made->type = std::make_unique<rpc::wire::ElementType>(type);
  made->shape = std::move(shape);
  return made;
}

/// What an honest board says of it, by DLPack's numbers.
rpc::wire::ModuleLoadedT honest_description() {
  rpc::wire::ModuleLoadedT loaded;
  loaded.handle = 1;
  loaded.inputs.push_back(tensor("in", {0, 4}, {-1, 4}));
  loaded.outputs.push_back(tensor("out", {4, 16}, {-1, 4}));
  return loaded;
}

using Change = std::function<void(rpc::wire::ModuleLoadedT&)>;

/// What is said of a board that describes the module so; "" where it is believed.
std::string complaint_about(const Change& change) {
  FakeBoard board([&](FramePeer& peer) {
    rpc::wire::ModuleLoadedT loaded = honest_description();
    change(loaded);
    FakeBoard::answer(peer, std::move(loaded));
    FakeBoard::next_request(peer);  // until the client goes
  });
  BoardMachine machine(std::move(board.client), "pi", "pi:7453", BoardMachine::Sending::kWhole);
  try {
    machine.load(small_module(), {}, {});
  } catch (const rpc::Error& error) {
    EXPECT_EQ(error.kind(), rpc::ErrorKind::kBoard);
    return error.what();
  }
  return "";
}

TEST(BoardMachine, BelievesABoardThatSaysOfAModuleWhatItsFileDoes) {
  EXPECT_EQ(complaint_about([](auto&) {}), "");
}

TEST(BoardMachine, DoesNotBelieveABoardThatDescribesAnotherModule) {
  const auto refused = [](const Change& change, const char* what) {
    EXPECT_THAT(complaint_about(change), HasSubstr("pi: it says that the module has other inputs or outputs"))
        << what;
  };
  refused([](auto& m) { m.inputs.push_back(tensor("in", {0, 4}, {-1, 4})); }, "one input more");
  refused([](auto& m) { m.inputs.clear(); }, "no input");
  refused([](auto& m) { m.outputs.push_back(tensor("out", {4, 16}, {-1, 4})); }, "one output more");
  refused([](auto& m) { m.inputs[0]->name = "out"; }, "another name");
  refused([](auto& m) { m.outputs[0]->type = std::make_unique<rpc::wire::ElementType>(4, 8); }, "fewer bits");
  refused([](auto& m) { m.inputs[0]->type = std::make_unique<rpc::wire::ElementType>(1, 4); }, "unsigned");
  refused([](auto& m) { m.inputs[0]->shape[1] = int64_t{1} << 40; }, "another extent");
  refused([](auto& m) { m.inputs[0]->shape[0] = 3; }, "an extent of what is open");
  refused([](auto& m) { m.inputs[0]->shape[1] = -1; }, "an open extent");
  refused([](auto& m) { m.outputs[0]->shape.push_back(1); }, "one dimension more");
}

TEST(BoardMachine, SendsAgainWhatTheBoardFindsDamagedWhenItLoadsIt) {
  std::atomic<int> queries = 0;
  FakeBoard board([&](FramePeer& peer) {
    const auto answer_query = [&] {
      rpc::wire::SegmentStatesT states;
      states.held = {uint64_t{1} << 30};  // all of its one segment
      FakeBoard::answer(peer, std::move(states));
      ++queries;
    };
    answer_query();
    rpc::wire::FailureT failure;
    failure.kind = rpc::wire::FailureKind::Retry;
    failure.message = "a segment is not in the board's cache: upload the module (again)";
    FakeBoard::answer(peer, std::move(failure));
    answer_query();
    FakeBoard::answer(peer, honest_description());
    FakeBoard::next_request(peer);  // until the client goes
  });
  BoardMachine machine(std::move(board.client), "pi", "pi:7453", BoardMachine::Sending::kMissingSegments);
  EXPECT_EQ(machine.load(small_module(), {}, {}).handle, 1u);
  EXPECT_EQ(queries, 2);
}

}  // namespace
}  // namespace gantry::cli
