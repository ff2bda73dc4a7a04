// Spans of threads, and the files that they become.
#include "host/trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "host/support/error.h"
#include "perfetto.pb.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Span span(const char* name, int64_t begin, int64_t end) {
  return {name, "test", begin, end, {}};
}

/// "+a@0 +b@1 -@2 -@3"
std::string drawn(const TraceTrack& track) {
  std::string text;
  for (const TraceEdge& edge : edges_of(track)) {
    text += text.empty() ? "" : " ";
    text += (edge.begins != nullptr ? "+" + edge.begins->name : "-") + "@" + std::to_string(edge.at_ns);
  }
  return text;
}

TEST(Trace, DrawsSlicesWithinEachOther) {
  EXPECT_EQ(drawn({"", {span("a", 0, 10), span("b", 1, 4), span("c", 4, 9), span("d", 12, 13)}}),
            "+a@0 +b@1 -@4 +c@4 -@9 -@10 +d@12 -@13");
}

TEST(Trace, SlicesOfNoTimeBeginAndEnd) {
  EXPECT_EQ(drawn({"", {span("a", 0, 0), span("b", 0, 5), span("c", 5, 5)}}), "+a@0 -@0 +b@0 -@5 +c@5 -@5");
}

TEST(Trace, CutsOffWhatReachesOverTheEndOfTheSliceThatItBeginsIn) {
  EXPECT_EQ(drawn({"", {span("a", 0, 10), span("b", 8, 15), span("c", 20, 18)}}),
            "+a@0 +b@8 -@10 -@10 +c@20 -@20");
}

TEST(Trace, KnowsItsFormatsByNameAndByFile) {
  EXPECT_EQ(trace_format_of("a/b.pftrace"), TraceFormat::kPerfetto);
  EXPECT_EQ(trace_format_of("b.perfetto-trace"), TraceFormat::kPerfetto);
  EXPECT_EQ(trace_format_of("b.json"), TraceFormat::kChrome);
  EXPECT_EQ(trace_format_of("json"), std::nullopt);
  EXPECT_EQ(find_trace_format("chrome", "--format"), TraceFormat::kChrome);
  EXPECT_THROW(find_trace_format("crome", "--format"), Error);
}

Trace sample() {
  Span kernel = span("conv_1", 1000, 3500);
  kernel.arguments = {{"flops", 2e9}, {"ONNX nodes", "Conv_0, Relu_1"}};
  TraceProcess process{"kernels", {{"steps", {kernel}}, {"thread 0", {span("conv_1", 1000, 3000)}}}, {}};
  process.counters = {{"power", "W", {{0, 7.5}, {2000, 8}}}};
  return {{process, {"other", {}, {}}}};
}

TEST(Trace, AsPerfettoHasATrackForEveryThreadAndCounterBelowItsProcess) {
  perfetto::Trace trace;
  ASSERT_TRUE(trace.ParseFromString(encode_trace(sample(), TraceFormat::kPerfetto)));
  std::map<uint64_t, perfetto::TrackDescriptor> tracks;
  std::map<uint64_t, std::vector<perfetto::TrackEvent>> events;
  std::map<uint64_t, std::vector<uint64_t>> times;
  for (const auto& packet : trace.packet()) {
    EXPECT_NE(packet.trusted_packet_sequence_id(), 0u);
    if (packet.has_track_descriptor()) {
      EXPECT_TRUE(tracks.emplace(packet.track_descriptor().uuid(), packet.track_descriptor()).second);
    } else {
      ASSERT_TRUE(tracks.contains(packet.track_event().track_uuid())) << "told of before its events";
      events[packet.track_event().track_uuid()].push_back(packet.track_event());
      times[packet.track_event().track_uuid()].push_back(packet.timestamp());
    }
  }
  ASSERT_THAT(tracks, SizeIs(5));
  std::set<int64_t> threads;
  for (const auto& [uuid, track] : tracks) {
    if (track.has_process()) continue;
    ASSERT_TRUE(tracks.contains(track.parent_uuid()));
    EXPECT_EQ(tracks[track.parent_uuid()].process().process_name(), "kernels");
    if (track.has_thread()) {
      EXPECT_EQ(track.thread().pid(), tracks[track.parent_uuid()].process().pid());
      EXPECT_TRUE(threads.insert(track.thread().tid()).second);
    }
    if (track.thread().thread_name() == "steps") {
      ASSERT_THAT(events[uuid], SizeIs(2));
      const auto& begin = events[uuid][0];
      EXPECT_EQ(begin.type(), perfetto::TrackEvent::TYPE_SLICE_BEGIN);
      EXPECT_EQ(begin.name(), "conv_1");
      ASSERT_EQ(begin.debug_annotations_size(), 2);
      EXPECT_EQ(begin.debug_annotations(0).double_value(), 2e9);
      EXPECT_EQ(begin.debug_annotations(1).string_value(), "Conv_0, Relu_1");
      EXPECT_EQ(events[uuid][1].type(), perfetto::TrackEvent::TYPE_SLICE_END);
      EXPECT_THAT(times[uuid], ElementsAre(1000, 3500));
    }
    if (track.has_counter()) {
      EXPECT_EQ(track.name(), "power");
      EXPECT_EQ(track.counter().unit_name(), "W");
      ASSERT_THAT(events[uuid], SizeIs(2));
      EXPECT_EQ(events[uuid][1].type(), perfetto::TrackEvent::TYPE_COUNTER);
      EXPECT_EQ(events[uuid][1].double_counter_value(), 8);
    }
  }
}

TEST(Trace, AsChromesEventsHasTheSame) {
  const std::string text = encode_trace(sample(), TraceFormat::kChrome);
  EXPECT_TRUE(text.starts_with(kChromeTraceBegin));
  const nlohmann::json json = nlohmann::json::parse(text);
  std::map<std::string, int> phases;
  for (const auto& event : json["traceEvents"]) {
    ++phases[event["ph"]];
    EXPECT_TRUE(event.contains("pid") && event.contains("tid") && event.contains("name"));
    if (event["ph"] != "X") continue;
    EXPECT_EQ(event["ts"], 1.0);
    EXPECT_EQ(event["name"], "conv_1");
  }
  EXPECT_EQ(phases["X"], 2);
  EXPECT_EQ(phases["C"], 2);
  EXPECT_EQ(phases["M"], 8) << "name and place of two processes and two threads";
}

TEST(Spans, OfEveryThreadHaveALaneAndNestInIt) {
  SpanRecorder recorder;
  {
    const TimedSpan outer(&recorder, "test", "outer");
    TimedSpan inner(&recorder, "test", "");
    inner.rename("inner");
    inner.say("count", 3.0);
    std::thread([&] { const TimedSpan other(&recorder, "test", "other"); }).join();
  }
  const auto lanes = recorder.take();
  ASSERT_THAT(lanes, SizeIs(2));
  ASSERT_THAT(lanes[0], SizeIs(2));
  EXPECT_EQ(lanes[0][0].name, "outer");
  EXPECT_EQ(lanes[0][1].name, "inner");
  EXPECT_THAT(lanes[0][1].arguments, SizeIs(1));
  EXPECT_LE(lanes[0][0].begin_ns, lanes[0][1].begin_ns);
  EXPECT_GE(lanes[0][0].end_ns, lanes[0][1].end_ns);
  ASSERT_THAT(lanes[1], SizeIs(1));
  EXPECT_EQ(lanes[1][0].name, "other");
}

TEST(Spans, OfThreadsThatFollowOneAnotherShareALane) {
  SpanRecorder recorder;
  for (int i = 0; i < 3; ++i) std::thread([&] { const TimedSpan span(&recorder, "test", "part"); }).join();
  const auto lanes = recorder.take();
  ASSERT_THAT(lanes, SizeIs(2));
  EXPECT_THAT(lanes[0], IsEmpty()) << "of the thread that made the recorder";
  EXPECT_THAT(lanes[1], SizeIs(3));
}

TEST(Spans, AreNotRecordedWhereNobodyAsks) {
  TimedSpan span(nullptr, "test", "nothing");
  span.rename("still nothing");
  span.say("count", 1.0);
}

}  // namespace
}  // namespace gantry
