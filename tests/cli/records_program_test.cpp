// --records through the program: what they decide, what is said of it, and what is not used.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "device_runtime/src/cpu_info.h"
#include "host/codegen/find_target.h"
#include "host/driver/program.h"
#include "host/ops/op.h"
#include "host/passes/work_digest.h"
#include "host/records/setting.h"
#include "host/records/store.h"
#include "tests/cli/gantry_process.h"
#include "tests/records/samples.h"

namespace gantry::cli {
namespace {

using gantry::testing::GantryFolders;
using gantry::testing::Outcome;
using nlohmann::json;
using records::Record;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A product of 128 by 64 by 32 with small whole numbers as weights.
std::string network() {
  std::string weights;
  for (int i = 0; i < 64 * 32; ++i) weights += fmt::format("{}{}", i == 0 ? "" : ", ", i * 7 % 5 - 2);
  return fmt::format(
      "fn @main(%x: Tensor[(128, 64), f32]) -> Tensor[(128, 32), f32] {{\n"
      "  %y = nn.dense(%x, @w: const(f32, [64, 32], [{}]), units=32)  // head\n  return %y as \"y\"\n}}\n",
      weights);
}

class Records : public ::testing::Test {
 protected:
  Records() { folders_.write("net.gir", network()); }

  /// Of the network's one node, on `machine` with 2 threads.
  Record record_for(const std::string& target, const std::string& machine, const Decision& decision) const {
    const Target precise = with_precision(find_target(target), Precision::kAuto);
    const NodeDecision node = build_program(parse_graph(network(), op_set()), precise, {}).decisions.at(0);
    Record record = records::testing::sample_record();
    record.key = {node.work, records::setting_of(precise, machine, 2, "speed")};
    record.op = node.op->name;
    record.decision = decision;
    record.baseline = node.decision;
    record.nodes = "head";
    return record;
  }
  void add(const Record& record) const {
    records::StoreOptions options;
    options.create = true;
    records::open_store(folders_.path("lab.db"), options)->add(std::vector{record});
  }
  Outcome done(const std::vector<std::string>& arguments) const {
    const Outcome outcome = folders_.run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  }
  json compiled(std::vector<std::string> more = {}) const {
    more.insert(more.begin(),
                {"compile", "net.gir", "--target", target_, "--records", "lab.db", "--json"});
    return json::parse(done(more).out)["records"];
  }

  /// One that is not this machine's own: of that, records of other machines are not taken.
  const std::string target_ = find_target("native").name == "x86-64-v3" ? "haswell" : "x86-64-v3";
  GantryFolders folders_;
  const Decision decision_{"packed", {{"block", 8}, {"rows", 3}}};
};

TEST_F(Records, CompileTakesThemSaysSoAndTheModuleKeepsTheDecision) {
  add(record_for(target_, "Test CPU 1", decision_));
  const json report = compiled();
  ASSERT_EQ(report["decided"].size(), 1u);
  EXPECT_EQ(report["decided"][0]["nodes"], json::array({"head"}));
  EXPECT_EQ(report["decided"][0]["decision"], "{form=packed, block=8, rows=3}");
  EXPECT_EQ(report["decided"][0]["record"], "lab.db: record 1");
  EXPECT_THAT(done({"inspect", "net.gmod", "--forms"}).out,
              HasSubstr("nn.dense {form=packed, block=8, rows=3}  // head"));
  const Outcome again = done({"compile", "net.gir", "--target", target_, "--records", "lab.db"});
  EXPECT_THAT(again.err, HasSubstr("lab.db decided 1 of 1 nodes: head"));
}

/// Of the network as a whole.
Record network_record(const std::string& target, NetworkQuestion question, const Decision& decision) {
  Record record = records::testing::sample_record();
  record.key = {
      network_digest(parse_graph(network(), op_set()).main, question),
      records::setting_of(with_precision(find_target(target), Precision::kAuto), "Test CPU 1", 2, "speed")};
  record.op = records::kNetworkOp;
  record.decision = decision;
  record.baseline = {"own", {}};
  return record;
}

TEST_F(Records, OfTheNetworkTheyAreTakenAndSaidToo) {
  Record layouts = network_record(target_, NetworkQuestion::kLayouts, {"layouts", {}});
  layouts.parts = {{0, decision_}};
  add(layouts);
  add(network_record(target_, NetworkQuestion::kProducts, {"combined", {}}));
  Record other = network_record(target_, NetworkQuestion::kFusions, {"apart", {}});
  other.parts = {{0, {"apart", {{"reader", 5}}}}};
  add(other);
  const json report = compiled();
  ASSERT_EQ(report["decided"].size(), 1u);
  EXPECT_EQ(report["decided"][0]["record"], "lab.db: record 1");
  ASSERT_EQ(report["network"].size(), 3u);
  EXPECT_EQ(report["network"][0],
            json({{"question", "layouts"}, {"record", "lab.db: record 1"}, {"unused", json::array()}}));
  EXPECT_EQ(report["network"][1]["record"], "lab.db: record 2");
  EXPECT_EQ(report["network"][2]["record"], nullptr);
  EXPECT_THAT(report["network"][2]["unused"][0].get<std::string>(),
              HasSubstr("node 0 is not read by node 5"));
  EXPECT_THAT(done({"inspect", "net.gmod", "--forms"}).out,
              AllOf(HasSubstr("network {form=combined}\n"),
                    HasSubstr("nn.dense {form=packed, block=8, rows=3}  // head")));
  EXPECT_THAT(done({"ir", "net.gir", "--target", target_, "--forms", "--records", "lab.db"}).out,
              HasSubstr("network {form=combined}\n"));
  const Outcome again = done({"compile", "net.gir", "--target", target_, "--records", "lab.db"});
  EXPECT_THAT(
      again.err,
      AllOf(HasSubstr("lab.db: record 1 decided of the network how images lie"),
            HasSubstr("lab.db: record 2 decided of the network that products of the same data are combined"),
            HasSubstr("(the network: which nodes are kept apart)")));
}

TEST_F(Records, OfTheNetworkTheyAreListedCarriedAndRemoved) {
  Record layouts = network_record(target_, NetworkQuestion::kLayouts, {"layouts", {}});
  layouts.parts = {{0, decision_}, {2, decision_}};
  add(layouts);
  EXPECT_THAT(done({"records", "list", "lab.db", "--best"}).out, HasSubstr("{form=layouts} of 2 nodes"));
  EXPECT_THAT(
      done({"records", "show", "lab.db", "1"}).out,
      HasSubstr("{form=layouts}; 0 {form=packed, block=8, rows=3}; 2 {form=packed, block=8, rows=3}"));
  done({"records", "export", "lab.db", "-o", "lab.jsonl"});
  EXPECT_THAT(done({"records", "import", "other.db", "lab.jsonl"}).out,
              HasSubstr("1 record imported, 0 there already, 0 lines left out"));
  EXPECT_EQ(done({"records", "export", "lab.db", "-o", "-"}).out, done({"records", "export", "lab.db"}).out);
  EXPECT_THAT(folders_.run({"records", "list", "lab.db", "--id", "first"}).err,
              HasSubstr("--id: 'first' is not a whole number from 1 to"));
  EXPECT_EQ(done({"records", "list", "other.db", "--op", "network", "--json"}).out,
            done({"records", "list", "lab.db", "--json"}).out);
  EXPECT_THAT(done({"records", "verify", "lab.db"}).out, HasSubstr("not measured: it is of a whole network"));
  EXPECT_THAT(done({"records", "prune", "lab.db", "--op", "network"}).out, HasSubstr("1 record removed"));
}

TEST_F(Records, WithoutTheOptionNothingIsAskedAndNothingSaid) {
  add(record_for(target_, "Test CPU 1", decision_));
  const Outcome outcome = done({"compile", "net.gir", "--target", target_, "--json"});
  EXPECT_FALSE(json::parse(outcome.out).contains("records"));
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Records, OfAnotherGeneratorTheyAreNotUsedAndThatIsSaid) {
  Record record = record_for(target_, "Test CPU 1", decision_);
  record.key.setting.generator = "0.0.1";
  add(record);
  const json report = compiled();
  EXPECT_THAT(report["decided"], IsEmpty());
  ASSERT_EQ(report["unused"].size(), 1u);
  EXPECT_EQ(report["unused"][0]["why"], "lab.db: records of generator 0.0.1, not this one");
}

TEST_F(Records, OfSeveralNumbersOfThreadsOneIsNamed) {
  Record record = record_for(target_, "Test CPU 1", decision_);
  add(record);
  record.key.setting.threads = 4;
  add(record);
  EXPECT_THAT(compiled()["decided"], IsEmpty());
  EXPECT_THAT(folders_.run({"compile", "net.gir", "--record-threads", "4"}).err,
              HasSubstr("--record-threads requires --records"));
  EXPECT_EQ(compiled({"--force", "--record-threads", "4"})["decided"][0]["record"], "lab.db: record 2");
}

TEST_F(Records, WhatDoesNotFitIsNotUsedAndTheModelIsCompiledAllTheSame) {
  add(record_for(target_, "Test CPU 1", {"packed", {{"block", 16}, {"rows", 9}}}));
  const json report = compiled();
  EXPECT_THAT(report["decided"], IsEmpty());
  EXPECT_THAT(report["unused"][0]["why"].get<std::string>(), HasSubstr("rows=9 does not fit"));
}

TEST_F(Records, BenchAndRunTakeThoseOfTheirMachineAndThreads) {
  const runtime::CpuInfo& cpu = runtime::cpu_info();
  const std::string native = find_target("native").name;
  Record record = record_for(native, cpu.brand, decision_);
  record.decision = record.baseline;  // whatever this machine is, it fits
  add(record);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", "net.gir", "--random=1"},
        {"bench", "net.gir", "--repeat", "3", "--processes", "1"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--records", "lab.db", "--threads", "2"});
    EXPECT_THAT(done(arguments).err, HasSubstr("lab.db decided 1 of 1 nodes: head")) << command[0];
    arguments.back() = "1";
    EXPECT_THAT(done(arguments).err, AllOf(HasSubstr("lab.db decided 0 of 1 nodes"),
                                           HasSubstr("not used: lab.db: records of 2 threads, not 1 (head)")))
        << command[0];
  }
}

TEST_F(Records, IrShowsTheDecisionsThatTheyMake) {
  const Record record = record_for(target_, "Test CPU 1", decision_);
  add(record);
  const auto forms = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"ir", "net.gir", "--target", target_, "--forms"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return done(arguments).out;
  };
  EXPECT_THAT(forms({"--records", "lab.db"}), HasSubstr("{form=packed, block=8, rows=3}"));
  EXPECT_THAT(forms({}), Not(HasSubstr("rows=3")));
  const json why = json::parse(
      done({"ir", "net.gir", "--target", target_, "--explain", "--node", "head", "--json"}).out);
  EXPECT_EQ(why[0]["work"], record.key.work);
}

TEST_F(Records, AreListedShownExportedImportedAndPruned) {
  const Record record = record_for(target_, "Test CPU 1", decision_);
  add(record);
  Record trial = record;
  trial.confirmation = false;
  trial.key.setting.generator = "0.0.1";
  add(trial);
  const json all = json::parse(done({"records", "list", "lab.db", "--json"}).out);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["work"], record.key.work);
  EXPECT_EQ(all[1]["id"], 2);
  const json best = json::parse(done({"records", "list", "lab.db", "--best", "--json"}).out);
  ASSERT_EQ(best.size(), 1u);
  EXPECT_EQ(best[0]["id"], 1);
  EXPECT_THAT(done({"records", "list", "lab.db"}).out, HasSubstr("{form=packed, block=8, rows=3}"));
  EXPECT_THAT(done({"records", "show", "lab.db", "1"}).out,
              HasSubstr("machine                   Test CPU 1"));
  EXPECT_THAT(folders_.run({"records", "show", "lab.db", "3"}).err, HasSubstr("lab.db: has no record 3"));

  done({"records", "export", "lab.db", "--confirmed", "-o", "lab.jsonl"});
  done({"records", "import", "other.db", "lab.jsonl"});
  EXPECT_EQ(json::parse(done({"records", "list", "other.db", "--json"}).out).size(), 1u);
  EXPECT_EQ(folders_.run({"records", "export", "lab.db", "-o", "lab.db", "--force"}).code, 1);

  EXPECT_THAT(folders_.run({"records", "import", "other.db", "."}).err, HasSubstr(".: is a folder"));

  EXPECT_EQ(folders_.run({"records", "prune", "lab.db"}).code, 1);
  EXPECT_THAT(folders_.run({"records", "prune", "lab.db", "--before", "2026-02-31"}).err,
              HasSubstr("is no date"));
  // Not the largest number that there is.
  EXPECT_THAT(folders_.run({"records", "prune", "lab.db", "--id", "99999999999999999999999"}).err,
              HasSubstr("'99999999999999999999999' is not a whole number"));
  EXPECT_EQ(json::parse(done({"records", "prune", "lab.db", "--other-generators", "--dry-run", "--json"})
                            .out)["would_remove"],
            1);
  EXPECT_EQ(json::parse(done({"records", "prune", "lab.db", "--other-generators", "--json"}).out)["removed"],
            1);
  EXPECT_EQ(json::parse(done({"records", "list", "lab.db", "--json"}).out).size(), 1u);
}

TEST_F(Records, AReaderOfAnExportThatIsGoneEndsTheProgramWithoutAWord) {
  add(record_for(target_, "Test CPU 1", decision_));
  EXPECT_EQ(done({"records", "export", "lab.db", "-o", "/dev/stdout"}).out,
            done({"records", "export", "lab.db"}).out);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::close(ends[0]);
  for (std::vector<std::string> arguments :
       {std::vector<std::string>{}, std::vector<std::string>{"-o", "/dev/stdout"}}) {
    arguments.insert(arguments.begin(), {"records", "export", "lab.db"});
    const Outcome outcome = folders_.run(arguments, ends[1]);
    EXPECT_EQ(outcome.code, 128 + SIGPIPE) << "signal " << outcome.signal;
    EXPECT_EQ(outcome.err, "");
  }
  ::close(ends[1]);
}

TEST_F(Records, WordsOfFiltersThatNothingIsCalledByAreErrors) {
  Record other = record_for(target_, "Test CPU 1", decision_);
  other.op = "nn.of_another_version";
  add(other);
  const auto refused = [&](const std::string& option, const std::string& word) {
    std::string said;
    for (const char* action : {"list", "prune", "verify", "export"}) {
      const Outcome outcome = folders_.run({"records", action, "lab.db", option, word});
      EXPECT_EQ(outcome.code, 1) << action << outcome.out;
      said += outcome.err;
    }
    return said;
  };
  EXPECT_THAT(refused("--op", "nn.dens"), HasSubstr("did you mean 'nn.dense'"));
  EXPECT_THAT(refused("--op", "netwrk"), HasSubstr("'network'"));
  EXPECT_THAT(refused("--precision", "fp23"), HasSubstr("did you mean 'fp32'"));
  EXPECT_THAT(refused("--precision", "auto"), HasSubstr("in records it is called as what it stood for"));
  EXPECT_THAT(refused("--target", "znvr4"), HasSubstr("did you mean 'znver4'"));
  EXPECT_THAT(refused("--target", "native"),
              HasSubstr("in records it is called " + find_target("native").name));
  EXPECT_EQ(json::parse(done({"records", "list", "lab.db", "--json"}).out).size(), 1u);
  EXPECT_EQ(
      json::parse(done({"records", "list", "lab.db", "--op", "nn.of_another_version", "--json"}).out).size(),
      1u);
  EXPECT_THAT(refused("--machine", "Test CPU"),
              HasSubstr("--machine Test CPU: lab.db has no record of it; its records are of: Test CPU 1"));
  // What there might be is no error.
  EXPECT_THAT(done({"records", "list", "lab.db", "--op", "nn.conv"}).err,
              HasSubstr("has no such records; none is of --op nn.conv, but of nn.of_another_version"));
  done({"records", "list", "lab.db", "--target", "znver5"});
  done({"records", "prune", "lab.db", "--precision", "fp32-split3"});
}

TEST_F(Records, OfFiltersThatNothingPassesItIsSaidWhatTheStoreHas) {
  Record record = record_for(target_, "Test CPU 1", decision_);
  add(record);
  record.key.setting.threads = 16;
  record.key.setting.machine = "Test CPU 2";
  add(record);
  const std::string none = "lab.db: has no such records; none is of --threads 3, but of 2, 16\n";
  EXPECT_THAT(done({"records", "list", "lab.db", "--threads", "3"}).err, HasSubstr(none));
  EXPECT_THAT(done({"records", "export", "lab.db", "--threads", "3"}).err, HasSubstr(none));
  EXPECT_THAT(done({"records", "prune", "lab.db", "--threads", "3"}).err, HasSubstr(none));
  EXPECT_THAT(folders_.run({"records", "list", "lab.db", "--machine", "Test CPU 3"}).err,
              HasSubstr("are of: Test CPU 1, Test CPU 2"));
  EXPECT_THAT(done({"records", "list", "lab.db", "--outcome", "wrong"}).err,
              HasSubstr("none is of --outcome wrong, but of measured"));
  // Each has records, both together have none.
  EXPECT_THAT(done({"records", "list", "lab.db", "--machine", "Test CPU 1", "--threads", "16"}).err,
              HasSubstr("lab.db: has no such records\n"));
}

TEST_F(Records, OfAnEmptyStoreNoFilterIsAnError) {
  add(record_for(target_, "Test CPU 1", decision_));
  done({"records", "prune", "lab.db", "--id", "1"});
  for (const char* option : {"--machine", "--threads"})
    EXPECT_THAT(done({"records", "list", "lab.db", option, "3"}).err,
                HasSubstr("lab.db: has no such records: it has none at all"));
  EXPECT_EQ(done({"records", "list", "lab.db", "--machine", "any", "--json"}).out, "[]\n");
  done({"records", "export", "lab.db", "--machine", "any", "-o", "none.jsonl"});
  done({"records", "prune", "lab.db", "--machine", "any"});
}

TEST_F(Records, WhatCannotBeMeasuredHereIsSaidAndLeftAsItIs) {
  add(record_for(target_, "Another CPU", decision_));
  const json report = json::parse(done({"records", "verify", "lab.db", "--json"}).out);
  EXPECT_THAT(report[0]["why"].get<std::string>(), HasSubstr("no program"));
  EXPECT_EQ(json::parse(done({"records", "list", "lab.db", "--json"}).out).size(), 1u);
}

TEST_F(Records, ATunerThatFailsBeforeItMeasuresLeavesNoStore) {
  folders_.write("wrong.gir", "fn @main() -> {");
  const std::vector<std::string> before = testing::files_below(folders_.work());
  for (const std::vector<std::string>& words : {std::vector<std::string>{"none.onnx"},
                                                {"wrong.gir"},
                                                {"net.gir", "--on", "no-such-board"},
                                                {"net.gir", "--shape", "x=1"},
                                                {"net.gir", "--prior", "none.json"}}) {
    std::vector<std::string> arguments = {"tune", "--records", "new.db"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    EXPECT_EQ(folders_.run(arguments).code, 1) << words.back();
    EXPECT_EQ(testing::files_below(folders_.work()), before) << words.back();
  }
  // What is wrong with the place itself is said first.
  EXPECT_THAT(folders_.run({"tune", "net.gir", "--on", "no-such-board", "--records", "none/new.db"}).err,
              HasSubstr("none/new.db: cannot be created: there is no folder"));
  folders_.write("other.db", "not a store, whoever wrote it, but a text of some more bytes than none");
  EXPECT_THAT(folders_.run({"tune", "net.gir", "--on", "no-such-board", "--records", "other.db"}).err,
              HasSubstr("other.db: is no file of records"));
}

TEST_F(Records, ATunerThatFailsLeavesAStoreThatWasThere) {
  add(record_for(target_, "Test CPU 1", decision_));
  EXPECT_EQ(folders_.run({"tune", "net.gir", "--on", "no-such-board", "--records", "lab.db"}).code, 1);
  EXPECT_EQ(json::parse(done({"records", "list", "lab.db", "--json"}).out).size(), 1u);
}

TEST_F(Records, AStoreThatIsNotThereIsAnErrorBeforeAnythingIsCompiled) {
  const Outcome outcome = folders_.run({"compile", "net.gir", "--records", "none.db"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("none.db: there is no such file of records"));
}

}  // namespace
}  // namespace gantry::cli
