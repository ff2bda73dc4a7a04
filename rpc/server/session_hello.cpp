#include "rpc/server/session_hello.h"

namespace gantry::rpc {

std::optional<wire::ResponseT> misfit_of(const wire::HelloT* hello) {
  if (!hello) return make_failure(ErrorKind::kBug, "the first message must be a hello");
  if (hello->version_min > kProtocolVersion || hello->version_max < kProtocolVersion)
    return make_failure(ErrorKind::kRequest,
                        "the board speaks protocol version " + std::to_string(kProtocolVersion) +
                            ", this client does not: use the same version of gantry and gantry-device");
  return std::nullopt;
}

wire::WelcomeT make_welcome() {
  wire::WelcomeT welcome;
  welcome.version = kProtocolVersion;
  welcome.features = kFeatureLongResults | kFeatureLeases;
  welcome.server = "gantry-device";
  return welcome;
}

}  // namespace gantry::rpc
