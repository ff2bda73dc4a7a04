#include "host/tune/notebook.h"

#include <gmock/gmock.h>

#include "host/support/error.h"
#include "host/support/temporary.h"
#include "tests/tune/memory_store.h"
#include "tests/tune/small_space.h"

namespace gantry::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

RunFacts facts() {
  RunFacts facts;
  facts.setting = {.target = "x86-64-v3",
                   .machine = "a machine",
                   .features = "avx2",
                   .threads = 2,
                   .precision = "fp32",
                   .optimize = "speed",
                   .generator = "1-a"};
  facts.model = "m.onnx";
  facts.source = "a test";
  return facts;
}

Task task() {
  Task task;
  task.work = std::string(64, 'c');
  task.op = "nn.conv";
  task.nodes = {"conv1"};
  task.space = small_space();
  task.untuned = task.space.proposed.front();
  return task;
}

Ratio ratio(double value) {
  Ratio ratio{value, value * 0.99, value * 1.01, 10 * value, 10, {}, {}};
  ratio.process_amounts = {10 * value};
  ratio.base_process_amounts = {10};
  return ratio;
}

class NotebookTest : public testing::Test {
 protected:
  MemoryStore store_;
  std::vector<std::string> warnings_;
  Notebook notebook_{&store_, facts(), [this](const std::string& text) { warnings_.push_back(text); }};
  Task task_ = task();
  Decision first_{"direct", {{"block", 32}}}, second_{"direct", {{"block", 48}}};
};

TEST_F(NotebookTest, OutcomesAreKeptWithWhatTheyWereComparedWith) {
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), false);
  notebook_.failed(task_, second_, first_, {records::Outcome::kWrong, "output 'y' differs"});
  notebook_.flush();
  ASSERT_THAT(store_.kept, SizeIs(2));
  EXPECT_EQ(store_.kept[0].decision, first_);
  EXPECT_EQ(store_.kept[0].baseline, task_.untuned);
  EXPECT_DOUBLE_EQ(store_.kept[0].timing->ratio, 0.9);
  EXPECT_DOUBLE_EQ(store_.kept[0].timing->seconds, 0.009);
  EXPECT_EQ(store_.kept[1].outcome, records::Outcome::kWrong);
  EXPECT_EQ(store_.kept[1].reason, "output 'y' differs");
  EXPECT_EQ(notebook_.written(), 2U);
}

TEST_F(NotebookTest, NodesThatAreCalledByBytesThatAreNoTextAreKeptAsText) {
  task_.nodes = {"c\xff\x31"};
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), false);
  notebook_.flush();
  ASSERT_THAT(store_.kept, SizeIs(1));
  EXPECT_EQ(store_.kept[0].nodes, "c\\xff1");
}

TEST_F(NotebookTest, CostsFollowTheChainOfComparisons) {
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), false);
  notebook_.measured(task_, second_, first_, ratio(0.8), false);
  notebook_.flush();
  const std::vector<Remembered> known = notebook_.recall(task_);
  ASSERT_THAT(known, SizeIs(2));
  EXPECT_EQ(known[1].decision, second_);
  EXPECT_NEAR(*known[1].cost, 0.72, 1e-12);
}

TEST_F(NotebookTest, AFailureIsRememberedAsOne) {
  notebook_.failed(task_, first_, task_.untuned, {records::Outcome::kCrashed, "SIGSEGV"});
  notebook_.flush();
  const std::vector<Remembered> known = notebook_.recall(task_);
  ASSERT_THAT(known, SizeIs(1));
  EXPECT_FALSE(known[0].cost);
}

TEST_F(NotebookTest, WhatIsConfirmedIsKnownWhereItWasComparedWithTheUntunedDecision) {
  notebook_.measured(task_, first_, task_.untuned, ratio(0.8), false);
  notebook_.flush();
  EXPECT_EQ(notebook_.confirmed(task_), std::nullopt) << "a trial alone";
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), true);
  notebook_.flush();
  EXPECT_EQ(notebook_.confirmed(task_), first_);
  Task other = task_;
  other.untuned = second_;
  EXPECT_EQ(notebook_.confirmed(other), std::nullopt);
}

TEST_F(NotebookTest, WhatGainsBesideGivenDecisionsIsATrialAlone) {
  RunFacts given = facts();
  given.network = {std::string(64, '1'), std::string(64, '2'), std::string(64, '3')};
  given.of_compiler = false;
  Notebook notebook(&store_, given, {});
  const NetworkTrial combined{NetworkQuestion::kProducts, {"combined", {}}};
  for (const bool confirmation : {false, true}) {
    notebook.measured(task_, first_, task_.untuned, ratio(0.9), confirmation);
    notebook.measured(combined, ratio(0.9), confirmation);
  }
  notebook.finish();
  ASSERT_THAT(store_.kept, SizeIs(2));
  for (const records::Record& record : store_.kept) EXPECT_FALSE(record.confirmation);
  EXPECT_FALSE(records::best_of(store_.of_work(task_.work), given.setting).record);
  EXPECT_THAT(notebook.recall(task_), SizeIs(1));
}

TEST_F(NotebookTest, RecordsOfAnotherSettingAreNotRecalled) {
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), false);
  notebook_.flush();
  RunFacts other = facts();
  other.setting.threads = 4;
  EXPECT_THAT(Notebook(&store_, other, {}).recall(task_), IsEmpty());
}

TEST_F(NotebookTest, WhatALockedStoreDoesNotTakeIsWrittenLater) {
  store_.locked = true;
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), false);
  notebook_.flush();
  notebook_.measured(task_, second_, task_.untuned, ratio(0.8), false);
  notebook_.flush();
  EXPECT_THAT(warnings_, SizeIs(1)) << "once";
  EXPECT_THAT(store_.kept, IsEmpty());
  store_.locked = false;
  notebook_.measured(task_, first_, task_.untuned, ratio(0.91), true);
  notebook_.finish();
  EXPECT_THAT(store_.kept, SizeIs(3));
}

TEST_F(NotebookTest, WhatAServerHadWrittenWhenItWentAwayIsNotWrittenAgain) {
  store_.goes_away = true;
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), false);
  notebook_.flush();
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("the server is lost; what is measured is kept")));
  notebook_.measured(task_, second_, task_.untuned, ratio(0.8), false);
  notebook_.finish();
  ASSERT_THAT(store_.kept, SizeIs(2));
  EXPECT_EQ(store_.kept[1].decision, second_);
  EXPECT_EQ(notebook_.written(), 2U);
}

TEST_F(NotebookTest, ARecordThatNoStoreTakesIsLeftOutByItselfAndSaidOnce) {
  const Decision none{"", {}};
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), false);
  notebook_.measured(task_, none, task_.untuned, ratio(0.9), false);
  notebook_.measured(task_, none, task_.untuned, ratio(0.8), false);
  notebook_.measured(task_, second_, task_.untuned, ratio(0.8), false);
  notebook_.finish();
  EXPECT_THAT(store_.kept, SizeIs(2));
  EXPECT_EQ(notebook_.written(), 2U);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("a record is left out")));
}

TEST_F(NotebookTest, WhereNoStoreTakesWhatTheMachineCallsItselfTheRunEndsAllTheSame) {
  RunFacts named = facts();
  named.setting.machine = "a\tmachine";
  named.network = {std::string(64, '1'), std::string(64, '2'), std::string(64, '3')};
  Notebook notebook(&store_, named, [this](const std::string& text) { warnings_.push_back(text); });
  notebook.measured(task_, first_, task_.untuned, ratio(0.9), false);
  notebook.measured({NetworkQuestion::kProducts, {"combined", {}}}, ratio(0.9), false);
  notebook.failed({NetworkQuestion::kProducts, {"combined", {}}}, {records::Outcome::kWrong, "it differs"});
  notebook.flush();
  notebook.finish();
  EXPECT_THAT(store_.kept, IsEmpty());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("machine: has control characters")));
}

TEST_F(NotebookTest, AProgramThatIsTooLongIsLeftOutAndItsRecordsAreKept) {
  task_.program = std::string((size_t{1} << 20) + 1, 'x');
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), false);
  notebook_.measured(task_, second_, task_.untuned, ratio(0.8), false);
  notebook_.finish();
  EXPECT_THAT(store_.kept, SizeIs(2));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("the program of a kernel is left out")));
}

TEST_F(NotebookTest, AWorkWhoseProgramWasPrunedMeanwhileGetsItAgain) {
  task_.program = "the node by itself";
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), false);
  notebook_.flush();
  EXPECT_EQ(store_.program_of(task_.work), task_.program);
  store_.kept.clear();
  store_.programs_of.clear();
  notebook_.measured(task_, second_, task_.untuned, ratio(0.8), false);
  notebook_.flush();
  EXPECT_EQ(store_.program_of(task_.work), task_.program);
}

TEST_F(NotebookTest, AStoreThatCannotBeReadIsAskedOnce) {
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), true);
  notebook_.flush();
  store_.locked = true;
  EXPECT_THAT(notebook_.recall(task_), IsEmpty());
  EXPECT_EQ(notebook_.confirmed(task_), std::nullopt);
  EXPECT_THAT(notebook_.recall(task_), IsEmpty());
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("is locked by another program; what stands there is not used")));
  EXPECT_EQ(store_.reads, 1U) << "each may wait for the lock";
}

TEST_F(NotebookTest, WhatCannotBeWrittenAtTheEndIsAnError) {
  store_.locked = true;
  notebook_.measured(task_, first_, task_.untuned, ratio(0.9), false);
  notebook_.flush();
  EXPECT_THROW(notebook_.finish(), Error);
}

TEST_F(NotebookTest, AFileKeepsThemForTheNextRun) {
  const TemporaryFolder folder("test");
  const std::string place = (folder.path() / "lab.db").string();
  {
    const auto store = records::open_store(place, {.create = true});
    Notebook notebook(store.get(), facts(), {});
    notebook.measured(task_, first_, task_.untuned, ratio(0.9), true);
    notebook.finish();
  }
  const auto store = records::open_store(place);
  Notebook notebook(store.get(), facts(), {});
  const std::vector<Remembered> known = notebook.recall(task_);
  ASSERT_THAT(known, SizeIs(1));
  EXPECT_NEAR(*known[0].cost, 0.9, 1e-12);
}

NetworkTrial layouts(const Decision& decision) {
  return {NetworkQuestion::kLayouts, {"layouts", {}}, {{3, decision}, {7, decision}}, {"conv1", "conv2"}};
}

TEST_F(NotebookTest, OfTheNetworkTheLastOutcomeIsRemembered) {
  RunFacts own = facts();
  own.network = {std::string(64, '1'), std::string(64, '2'), std::string(64, '3')};
  Notebook notebook(&store_, own, {});
  EXPECT_FALSE(notebook.recall(layouts(first_)));
  notebook.failed(layouts(first_), {records::Outcome::kCrashed, "SIGSEGV"});
  notebook.measured(layouts(first_), ratio(0.9), false);
  notebook.failed(layouts(second_), {records::Outcome::kWrong, "output 'y' differs"});
  notebook.finish();
  ASSERT_THAT(store_.kept, SizeIs(3));
  EXPECT_EQ(store_.kept[1].key.work, own.network[0]);
  EXPECT_EQ(store_.kept[1].timed, "network");
  EXPECT_EQ(store_.kept[1].nodes, "conv1, conv2");
  EXPECT_EQ(records::decision_text(store_.kept[1]),
            "{form=layouts}; 3 {form=direct, block=32}; 7 {form=direct, block=32}");
  const auto first = notebook.recall(layouts(first_)), second = notebook.recall(layouts(second_));
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(first->whole);
  EXPECT_DOUBLE_EQ(first->whole->value, 0.9);
  EXPECT_NEAR(first->whole->amount, 9, 1e-12);
  ASSERT_TRUE(second->failure);
  EXPECT_EQ(second->failure->outcome, records::Outcome::kWrong);
}

TEST_F(NotebookTest, WithoutAKeyOfTheNetworkNothingOfItIsKept) {
  notebook_.measured(layouts(first_), ratio(0.9), true);
  notebook_.finish();
  EXPECT_THAT(store_.kept, IsEmpty());
  EXPECT_FALSE(notebook_.recall(layouts(first_)));
}

TEST_F(NotebookTest, CostsMayBeOverAnotherDecision) {
  notebook_.measured(task_, second_, first_, ratio(0.8), false);
  notebook_.flush();
  EXPECT_THAT(notebook_.recall(task_), IsEmpty()) << "nothing leads there from the untuned one";
  const std::vector<Remembered> known = notebook_.recall(task_, first_);
  ASSERT_THAT(known, SizeIs(1));
  EXPECT_NEAR(*known[0].cost, 0.8, 1e-12);
}

TEST(Notebook, WithoutAStoreNothingIsKept) {
  Notebook notebook(nullptr, facts(), {});
  notebook.measured(task(), {"direct", {}}, task().untuned, ratio(0.9), false);
  notebook.finish();
  EXPECT_THAT(notebook.recall(task()), IsEmpty());
}

}  // namespace
}  // namespace gantry::tune
