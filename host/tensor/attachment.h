// Where a stage is computed.
#pragma once

#include <cstdint>
#include <utility>

#include "host/tensor/tensor.h"

namespace gantry {

class Stage;

/// At root, in the expressions of its readers, or inside a loop of one other stage.
class Attachment {
 public:
  static Attachment root() { return Attachment(Kind::kRoot); }
  static Attachment inlined() { return Attachment(Kind::kInline); }
  static Attachment at(Stage& consumer, IterVarPtr axis) {
    Attachment attachment(Kind::kAtLoop);
    attachment.consumer_ = &consumer;
    attachment.axis_ = std::move(axis);
    return attachment;
  }
  /// See Stage::compute_once_a_thread.
  static Attachment once_a_thread_at(Stage& consumer, IterVarPtr axis) {
    Attachment attachment = at(consumer, std::move(axis));
    attachment.once_a_thread_ = true;
    return attachment;
  }

  bool is_root() const { return kind_ == Kind::kRoot; }
  bool is_inline() const { return kind_ == Kind::kInline; }
  bool is_at_loop() const { return kind_ == Kind::kAtLoop; }
  /// Whose loop `axis` is; both null unless there is one.
  Stage* consumer() const { return consumer_; }
  const IterVarPtr& axis() const { return axis_; }
  bool once_a_thread() const { return once_a_thread_; }

 private:
  enum class Kind : uint8_t { kRoot, kInline, kAtLoop };
  explicit Attachment(Kind kind) : kind_(kind) {}

  Kind kind_;
  Stage* consumer_ = nullptr;
  IterVarPtr axis_;
  bool once_a_thread_ = false;
};

}  // namespace gantry
