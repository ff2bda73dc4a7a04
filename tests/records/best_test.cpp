// Which records decide.
#include <gmock/gmock.h>

#include <functional>

#include "host/records/record.h"
#include "tests/records/samples.h"

namespace gantry::records {
namespace {

using ::testing::ElementsAre;
using testing::failed;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::sample_record;
using testing::sample_setting;
using testing::with_ratio;

/// Numbered, each a minute after the one before.
std::vector<Record> in_order(std::vector<Record> records) {
  for (size_t i = 0; i < records.size(); ++i) {
    records[i].id = static_cast<int64_t>(i + 1);
    records[i].date = fmt::format("2026-11-27T08:{:02}:00Z", i);
  }
  return records;
}

/// The id of what decides; 0: nothing does.
int64_t best(const std::vector<Record>& records, const Setting& setting = sample_setting()) {
  const Best found = best_of(records, setting);
  return found.record ? found.record->id : 0;
}

Record of_form(const char* form) {
  Record record = sample_record();
  record.decision = {form, {}};
  return record;
}

TEST(BestRecord, AConfirmedGainDecides) {
  EXPECT_EQ(best(in_order({sample_record()})), 1);
  EXPECT_EQ(best({}), 0);
}

TEST(BestRecord, ATrialDecidesNothingHoweverFastItWas) {
  Record trial = with_ratio(sample_record(), 0.1, 0.1, 0.1);
  trial.confirmation = false;
  EXPECT_EQ(best(in_order({trial})), 0);
  EXPECT_EQ(best(in_order({sample_record(), trial})), 1);
}

TEST(BestRecord, AnIntervalThatDoesNotExcludeALossDecidesNothing) {
  EXPECT_EQ(best(in_order({with_ratio(sample_record(), 0.8, 0.95, 1.0)})), 0);
  EXPECT_EQ(best(in_order({with_ratio(sample_record(), 0.8, 0.95, 0.9999)})), 1);
}

TEST(BestRecord, OfSeveralDecisionsTheOneThatIsSurelyFastest) {
  EXPECT_EQ(
      best(in_order({with_ratio(of_form("a"), 0.6, 0.7, 0.9), with_ratio(of_form("b"), 0.74, 0.75, 0.76)})),
      2);
}

TEST(BestRecord, TheNewestConfirmationOfADecisionCounts) {
  const Record gain = sample_record(), loss = with_ratio(sample_record(), 1.1, 1.2, 1.3);
  EXPECT_EQ(best(in_order({gain, loss})), 0);
  EXPECT_EQ(best(in_order({loss, gain})), 2);
  // Another decision's loss says nothing.
  Record other = loss;
  other.decision.form = "gemm";
  EXPECT_EQ(best(in_order({gain, other})), 1);
}

TEST(BestRecord, ANewerTrialThatIsSurelySlowerTakesAGainBack) {
  const Record gain = sample_record();
  Record loss = with_ratio(sample_record(), 1.01, 1.03, 1.05);
  loss.confirmation = false;
  EXPECT_EQ(best(in_order({gain, loss})), 0);
  EXPECT_EQ(best(in_order({loss, gain})), 2);
  EXPECT_EQ(best(in_order({gain, loss, gain})), 3);
  // Its interval holds 1, or it was compared with something else.
  Record unsure = with_ratio(loss, 0.99, 1.03, 1.05), beside_another = loss;
  beside_another.baseline.form = "another";
  EXPECT_EQ(best(in_order({gain, unsure, beside_another})), 1);
}

TEST(BestRecord, DecisionsOfANetworkDifferInTheirParts) {
  Record some = sample_record(), others = with_ratio(sample_record(), 1.1, 1.2, 1.3);
  for (Record* one : {&some, &others}) {
    one->op = kNetworkOp;
    one->decision = {"layouts", {}};
  }
  some.parts = {{3, {"direct", {}}}};
  others.parts = {{3, {"direct", {}}}, {4, {"direct", {}}}};
  EXPECT_EQ(best(in_order({some, others})), 1) << "the loss is of another decision";
  others.parts = some.parts;
  EXPECT_EQ(best(in_order({some, others})), 0);
}

TEST(BestRecord, DatesOrderRecordsOfSeveralStores) {
  std::vector<Record> records = in_order({with_ratio(sample_record(), 1.1, 1.2, 1.3), sample_record()});
  std::swap(records[0].id, records[1].id);
  EXPECT_EQ(best(records), 1);
}

TEST(BestRecord, WrongResultsAreNeverForgotten) {
  EXPECT_EQ(best(in_order({failed(sample_record(), Outcome::kWrong), sample_record()})), 0);
  EXPECT_EQ(best(in_order({sample_record(), failed(sample_record(), Outcome::kWrong)})), 0);
}

TEST(BestRecord, ALaterFailureEndsADecisionAndALaterConfirmationMendsIt) {
  for (const Outcome outcome :
       {Outcome::kCrashed, Outcome::kTimedOut, Outcome::kMisfit, Outcome::kBuildFailed}) {
    EXPECT_EQ(best(in_order({sample_record(), failed(sample_record(), outcome)})), 0);
    EXPECT_EQ(best(in_order({failed(sample_record(), outcome), sample_record()})), 2);
  }
}

TEST(BestRecord, WhatDiffersInAnyPartOfTheKeyIsNotUsedAndSaid) {
  const auto mismatch = [](const std::function<void(Setting&)>& change) {
    Record record = sample_record();
    change(record.key.setting);
    const Best found = best_of(in_order({record}), sample_setting());
    EXPECT_FALSE(found.record);
    return found.mismatches.size() == 1 ? found.mismatches[0] : std::string();
  };
  EXPECT_EQ(mismatch([](Setting& own) { own.target = "znver5"; }), "of target znver5, not x86-64-v3");
  EXPECT_EQ(mismatch([](Setting& own) { own.machine = "Test CPU 2"; }), "of Test CPU 2, not Test CPU 1");
  EXPECT_EQ(mismatch([](Setting& own) { own.features = "avx2"; }), "of other CPU features");
  EXPECT_EQ(mismatch([](Setting& own) { own.threads = 1; }), "of 1 thread, not 2");
  EXPECT_EQ(mismatch([](Setting& own) { own.precision = "bf16"; }), "of precision bf16, not fp32");
  EXPECT_EQ(mismatch([](Setting& own) { own.optimize = "size"; }), "of --optimize size, not speed");
  EXPECT_EQ(mismatch([](Setting& own) { own.generator = "0.0.1"; }), "of generator 0.0.1, not this one");
}

TEST(BestRecord, MismatchesAreNotSaidWhereSomethingMatches) {
  Record other = with_ratio(sample_record(), 0.1, 0.1, 0.1);
  other.key.setting.generator = "0.0.1";
  const Best found = best_of(in_order({other, sample_record()}), sample_setting());
  ASSERT_TRUE(found.record);
  EXPECT_EQ(found.record->id, 2);
  EXPECT_THAT(found.mismatches, IsEmpty());
}

TEST(BestRecord, ForAnUnknownMachineThoseOfTheOnlyOneDecide) {
  Setting open = sample_setting();
  open.machine.clear();
  open.threads = 0;
  EXPECT_EQ(best(in_order({sample_record()}), open), 1);
  Record other = sample_record();
  other.key.setting.threads = 4;
  const Best found = best_of(in_order({sample_record(), other}), open);
  EXPECT_FALSE(found.record);
  EXPECT_THAT(found.mismatches, ElementsAre(HasSubstr("2 threads"), HasSubstr("4 threads")));
  open.threads = 4;
  EXPECT_EQ(best(in_order({sample_record(), other}), open), 2);
}

}  // namespace
}  // namespace gantry::records
