#include "rpc/build_commit.h"

#include "build_commit_generated.h"

namespace gantry::rpc {

const char* build_commit() {
  return GANTRY_BUILD_COMMIT;
}

}  // namespace gantry::rpc
