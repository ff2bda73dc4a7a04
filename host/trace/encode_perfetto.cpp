#include <algorithm>

#include "host/support/error.h"
#include "host/trace/encode.h"
#include "perfetto.pb.h"

namespace gantry {
namespace {

constexpr uint32_t kSequence = 1;
constexpr uint32_t kIncrementalStateCleared = 1;
/// Of processes; a thread's that is its process's is taken for the main one.
constexpr int32_t kFirstPid = 1;
constexpr int64_t kFirstTid = 1001;

class Writer {
 public:
  std::string write(const Trace& trace) {
    for (const TraceProcess& process : trace.processes) add_process(process);
    std::string bytes;
    internal_check(trace_.SerializeToString(&bytes), "a trace of {} packets cannot be encoded",
                   trace_.packet_size());
    return bytes;
  }

 private:
  perfetto::TracePacket& packet() {
    perfetto::TracePacket& packet = *trace_.add_packet();
    packet.set_trusted_packet_sequence_id(kSequence);
    if (trace_.packet_size() == 1) packet.set_sequence_flags(kIncrementalStateCleared);
    return packet;
  }

  perfetto::TrackDescriptor& descriptor(uint64_t uuid) {
    perfetto::TrackDescriptor& descriptor = *packet().mutable_track_descriptor();
    descriptor.set_uuid(uuid);
    return descriptor;
  }

  void add_process(const TraceProcess& process) {
    const uint64_t uuid = ++last_uuid_;
    const int32_t pid = kFirstPid + pids_++;
    perfetto::TrackDescriptor& group = descriptor(uuid);
    group.mutable_process()->set_pid(pid);
    group.mutable_process()->set_process_name(process.name);
    group.set_child_ordering(perfetto::TrackDescriptor::EXPLICIT);
    for (const TraceTrack& track : process.tracks) add_track(track, uuid, pid);
    int32_t rank = 0;
    for (const TraceCounter& counter : process.counters) add_counter(counter, uuid, rank++);
  }

  void add_track(const TraceTrack& track, uint64_t parent, int32_t pid) {
    const uint64_t uuid = ++last_uuid_;
    perfetto::TrackDescriptor& thread = descriptor(uuid);
    thread.set_parent_uuid(parent);
    thread.mutable_thread()->set_pid(pid);
    thread.mutable_thread()->set_tid(kFirstTid + tids_++);
    thread.mutable_thread()->set_thread_name(track.name);
    for (const TraceEdge& edge : edges_of(track)) add_edge(edge, uuid);
  }

  perfetto::TrackEvent& event(uint64_t track, int64_t at_ns, perfetto::TrackEvent::Type type) {
    perfetto::TracePacket& at = packet();
    at.set_timestamp(static_cast<uint64_t>(std::max<int64_t>(at_ns, 0)));
    at.mutable_track_event()->set_track_uuid(track);
    at.mutable_track_event()->set_type(type);
    return *at.mutable_track_event();
  }

  void add_edge(const TraceEdge& edge, uint64_t track) {
    if (edge.begins == nullptr) {
      event(track, edge.at_ns, perfetto::TrackEvent::TYPE_SLICE_END);
      return;
    }
    perfetto::TrackEvent& begin = event(track, edge.at_ns, perfetto::TrackEvent::TYPE_SLICE_BEGIN);
    begin.set_name(edge.begins->name);
    begin.add_categories(edge.begins->category);
    for (const auto& [name, value] : edge.begins->arguments) {
      perfetto::DebugAnnotation& annotation = *begin.add_debug_annotations();
      annotation.set_name(name);
      if (const auto* text = std::get_if<std::string>(&value)) {
        annotation.set_string_value(*text);
      } else {
        annotation.set_double_value(std::get<double>(value));
      }
    }
  }

  void add_counter(const TraceCounter& counter, uint64_t parent, int32_t rank) {
    const uint64_t uuid = ++last_uuid_;
    perfetto::TrackDescriptor& track = descriptor(uuid);
    track.set_parent_uuid(parent);
    track.set_name(counter.name);
    track.mutable_counter()->set_unit_name(counter.unit);
    track.set_sibling_order_rank(rank);
    for (const TraceCounter::Value& value : counter.values)
      event(uuid, value.at_ns, perfetto::TrackEvent::TYPE_COUNTER).set_double_counter_value(value.value);
  }

  perfetto::Trace trace_;
  uint64_t last_uuid_ = 0;
  int32_t pids_ = 0;
  int64_t tids_ = 0;
};

}  // namespace

std::string encode_perfetto(const Trace& trace) {
  return Writer().write(trace);
}

}  // namespace gantry
