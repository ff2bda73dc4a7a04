// What Slurm 22.05 prints, as it was recorded, and what is none of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/farm/slurm.h"

namespace gantry::farm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

/// Of `squeue --json`; fields that nobody reads are left out.
constexpr char kQueue[] = R"json({
  "meta": {"plugin": {"type": "openapi\/v0.0.38", "name": "Slurm OpenAPI v0.0.38"},
           "Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"}},
  "errors": [],
  "jobs": [
    {"account": "", "array_task_id": null, "comment": "gantry lease-a ready 10.0.0.1:7453", "job_id": 1,
     "gres_detail": ["board:pi5:1(IDX:0)"], "job_state": "RUNNING", "name": "gantry-lease", "nodes": "vm",
     "start_time": 1795768526, "end_time": 1795768826, "submit_time": 1795768524, "state_reason": "None",
     "time_limit": 5, "tres_per_node": "gres:board:pi5:1", "user_name": "root", "restart_cnt": 0},
    {"comment": "", "job_id": 2, "gres_detail": [], "job_state": "PENDING", "name": "gantry-lease", "nodes": "",
     "start_time": 0, "end_time": 0, "submit_time": 1795768524, "state_reason": "Resources", "time_limit": null,
     "tres_per_node": "gres:board:pi5:1", "user_name": "alice"},
    {"comment": "", "job_id": 3, "gres_detail": [], "job_state": "NODE_FAIL", "name": "gantry-lease",
     "state_reason": "None", "user_name": "alice"},
    {"comment": "", "job_id": 4, "job_state": "RUNNING", "name": "weather", "user_name": "bob"}
  ]})json";

TEST(SlurmJson, LeasesAreReadAndOtherJobsAreNot) {
  const std::vector<Job> jobs = parse_leases(kQueue);
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[0].id, 1u);
  EXPECT_EQ(jobs[0].phase, JobPhase::kRunning);
  EXPECT_EQ(jobs[0].comment, "gantry lease-a ready 10.0.0.1:7453");
  EXPECT_EQ(jobs[0].unit, "board:pi5:1(IDX:0)");
  EXPECT_EQ(jobs[0].node, "vm");
  EXPECT_EQ(jobs[0].ends, 1795768826);
  EXPECT_EQ(jobs[1].phase, JobPhase::kPending);
  EXPECT_EQ(jobs[1].reason, "Resources");
  EXPECT_EQ(jobs[1].user, "alice");
  EXPECT_EQ(jobs[1].minutes, 0);
  EXPECT_EQ(jobs[2].phase, JobPhase::kEnded);
}

TEST(SlurmJson, StatesAndNumbersMayBeWrittenAsLaterVersionsDo) {
  const std::vector<Job> jobs = parse_leases(R"json({"jobs": [
    {"job_id": {"set": true, "infinite": false, "number": 7}, "job_state": ["RUNNING"], "name": "gantry-lease",
     "time_limit": {"set": true, "infinite": false, "number": 5}}]})json");
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].id, 7u);
  EXPECT_EQ(jobs[0].phase, JobPhase::kRunning);
  EXPECT_EQ(jobs[0].minutes, 5);
  EXPECT_THROW(parse_leases(R"json({"jobs": [{"job_id": 7, "name": "gantry-lease"}]})json"), SlurmError);
}

/// As a locale of a byte a character writes them.
TEST(SlurmJson, BytesThatAreNoTextAreReadAsQuestionMarks) {
  const std::vector<Job> jobs = parse_leases(
      "{\"jobs\": [{\"job_id\": 6, \"job_state\": \"RUNNING\", \"name\": \"m\xfcller\xc3\"},\n"
      "  {\"job_id\": 7, \"job_state\": \"RUNNING\", \"name\": \"gantry-lease\",\n"
      "   \"comment\": \"\xe9t\xc3\xa9\"}]}");
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].id, 7u);
  EXPECT_EQ(jobs[0].comment, "?t\xc3\xa9");
  const std::vector<NodeBoards> nodes =
      parse_boards("{\"nodes\": [{\"name\": \"vm\", \"gres\": \"board:pi5:1\", \"reason\": \"\xff\"}]}");
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0].reason, "?");
}

TEST(SlurmJson, BoardsOfNodesAreCounted) {
  const std::vector<NodeBoards> nodes = parse_boards(R"json({"nodes": [
    {"name": "vm", "state": "allocated", "state_flags": [], "reason": "", "gres": "board:pi5:3,board:nano:1",
     "gres_used": "board:pi5:2(IDX:0-1),board:nano:0(IDX:N\/A)"},
    {"name": "cpu1", "state": "idle", "gres": "", "gres_used": ""},
    {"name": "gw2", "state": "down", "state_flags": ["DRAIN"], "reason": "no power", "gres": "gpu:a100:2,board:pi5:1",
     "gres_used": "gpu:a100:0(IDX:N\/A),board:pi5:0(IDX:N\/A)"}]})json");
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_THAT(nodes[0].boards, ElementsAre(Pair("nano", std::pair(1, 0)), Pair("pi5", std::pair(3, 2))));
  EXPECT_EQ(nodes[1].state, "down+DRAIN");
  EXPECT_EQ(nodes[1].reason, "no power");
  EXPECT_THAT(nodes[1].boards, ElementsAre(Pair("pi5", std::pair(1, 0))));
}

TEST(SlurmJson, ResourcesWithoutATypeOrACountAreNoBoards) {
  EXPECT_THAT(parse_resources("board:2,board:pi5:x,gpu:a:1,,board:pi5:2(S:0-1)"),
              ElementsAre(Pair("pi5", 2)));
  EXPECT_THAT(parse_resources(""), IsEmpty());
  EXPECT_THAT(parse_resources("board:pi5:1(IDX:0,2"), ElementsAre(Pair("pi5", 1)));
}

TEST(SlurmJson, WhatIsNoneIsAnErrorThatSaysSo) {
  for (const char* json : {"", "[]", "{}", "{\"jobs\": 3}", "squeue: error"})
    EXPECT_THROW(parse_leases(json), SlurmError) << json;
  const char* odd =
      R"({"jobs": [3, null, {"name": "gantry-lease", "job_id": "x", "job_state": "RUNNING", "comment": 7}]})";
  EXPECT_THAT(parse_leases(odd), ::testing::SizeIs(1));
}

TEST(SlurmJson, AnEmptyListOfAControllerThatDoesNotAnswerIsNoList) {
  // As Slurm 22.05 prints it, with exit code 0.
  constexpr char kQueueOfNobody[] = R"json({
    "errors": [{"description": "Failed while looking for jobs", "error_number": -1, "error": "Unspecified error",
                "source": "slurm_load_jobs"}],
    "jobs": []})json";
  constexpr char kNodesOfNobody[] =
      R"json({"errors": [{"error": "Unspecified error", "errno": -1}], "nodes": []})json";
  try {
    parse_leases(kQueueOfNobody);
    ADD_FAILURE() << "it is a queue without jobs";
  } catch (const SlurmError& error) {
    EXPECT_TRUE(error.unreachable());
    EXPECT_THAT(error.what(), ::testing::HasSubstr("Failed while looking for jobs"));
  }
  try {
    parse_boards(kNodesOfNobody);
    ADD_FAILURE() << "it is a lab without nodes";
  } catch (const SlurmError& error) {
    EXPECT_TRUE(error.unreachable());
    EXPECT_THAT(error.what(), ::testing::HasSubstr("no list of nodes; `scontrol ping`"));
  }
  EXPECT_THROW(parse_boards(R"json({"errors": [7], "nodes": []})json"), SlurmError);
}

}  // namespace
}  // namespace gantry::farm
