// What a session tells of its board. Private to rpc/server.
#pragma once

#include <optional>

#include "rpc/protocol/message.h"
#include "rpc/server/options.h"

namespace gantry::rpc {

class SessionBoard {
 public:
  /// `options` must outlive the object.
  explicit SessionBoard(const ServeOptions& options) : options_(options) {}
  /// With its GPUs or without; they are asked for once a session.
  wire::BoardDescriptionT describe(bool gpus);

 private:
  const ServeOptions& options_;
  std::optional<wire::BoardDescriptionT> gpus_;
};

}  // namespace gantry::rpc
