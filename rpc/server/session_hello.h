// How a session begins. Private to rpc/server.
#pragma once

#include <optional>

#include "rpc/protocol/message.h"

namespace gantry::rpc {

/// Why a client with this first request can have no session; none: it can. `hello`: null where the request is
/// another one.
std::optional<wire::ResponseT> misfit_of(const wire::HelloT* hello);

wire::WelcomeT make_welcome();

}  // namespace gantry::rpc
