// Schedules of Python.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/python/expressions.h"
#include "host/tensor/schedule.h"

namespace gantry::python {

/// Changed and counted under Python's lock alone. While the host lowers it, without the lock, it may not be
/// changed.
struct SharedSchedule {
  Schedule schedule;
  int readers = 0;
};
using SchedulePtr = std::shared_ptr<SharedSchedule>;

/// The host reads a schedule while this lives; made and dropped under Python's lock.
class ScheduleReader {
 public:
  explicit ScheduleReader(SchedulePtr schedule) : schedule_(std::move(schedule)) { ++schedule_->readers; }
  ~ScheduleReader() { --schedule_->readers; }
  ScheduleReader(const ScheduleReader&) = delete;
  ScheduleReader& operator=(const ScheduleReader&) = delete;
  const Schedule& operator*() const { return schedule_->schedule; }

 private:
  SchedulePtr schedule_;
};

/// How one operation is computed.
struct ScheduledStage {
  SchedulePtr schedule;
  Stage* stage;

  /// Calls a primitive. User errors: it does not fit; the schedule is being lowered.
  template <typename Primitive>
  decltype(auto) change(const Primitive& primitive) const {
    check_unread(*schedule);
    return request([&] { return primitive(*stage); });
  }
  static void check_unread(const SharedSchedule& schedule) {
    if (schedule.readers > 0)
      user_error("the schedule is being lowered; it can be changed before or after that");
  }
};

}  // namespace gantry::python
