// When what was done on which thread, for those who want to see it.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace gantry {

/// What is said of a span beside its name: numbers, and texts.
using SpanArguments = std::vector<std::pair<std::string, std::variant<double, std::string>>>;

/// Something that took time.
struct Span {
  std::string name;
  std::string category;  ///< "pass", "codegen": what it is a kind of
  int64_t begin_ns = 0, end_ns = 0;
  SpanArguments arguments;
};

/// Collects spans of any threads. Times are since it was made. Whoever may be asked to record holds a pointer
/// to one, which is null where nobody asks: a TimedSpan then looks at no clock.
class SpanRecorder {
 public:
  using Clock = std::chrono::steady_clock;
  /// At most so many spans are kept; what comes behind them is counted.
  static constexpr size_t kMostSpans = 1'000'000;

  int64_t since_start(Clock::time_point time) const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time - start_).count();
  }
  int64_t now() const { return since_start(Clock::now()); }
  /// Of the calling thread, whose spans lie within or beside each other.
  void add(Span span);

  /// The spans by lane: of the thread that made the recorder first, then of others in the order in which they
  /// began; threads of which one had ended before the other began share a lane. In a lane spans are sorted by
  /// their begin, an outer one before those in it.
  std::vector<std::vector<Span>> take();
  size_t left_out() const { return left_out_; }

 private:
  struct Entry {
    std::thread::id thread;
    Span span;
  };
  Clock::time_point start_ = Clock::now();
  std::thread::id owner_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::vector<Entry> entries_;
  size_t left_out_ = 0;
};

/// A span from here to the end of the scope; nothing where `recorder` is null.
class TimedSpan {
 public:
  TimedSpan(SpanRecorder* recorder, std::string_view category, std::string_view name) : recorder_(recorder) {
    if (recorder_ == nullptr) return;
    span_.category = category;
    span_.name = name;
    span_.begin_ns = recorder_->now();
  }
  TimedSpan(const TimedSpan&) = delete;
  TimedSpan& operator=(const TimedSpan&) = delete;
  ~TimedSpan() {
    if (recorder_ == nullptr) return;
    span_.end_ns = recorder_->now();
    recorder_->add(std::move(span_));
  }

  /// Where the name or what is to be said is only known at the end.
  void rename(std::string_view name) {
    if (recorder_ != nullptr) span_.name = name;
  }
  void say(std::string_view what, double value) { put(what, value); }
  void say(std::string_view what, std::string_view text) { put(what, std::string(text)); }

 private:
  template <typename T>
  void put(std::string_view what, T value) {
    if (recorder_ != nullptr) span_.arguments.emplace_back(std::string(what), std::move(value));
  }

  SpanRecorder* recorder_;
  Span span_;
};

}  // namespace gantry
