/// Which state of the source this program was built from.
#ifndef GANTRY_RPC_BUILD_COMMIT_H
#define GANTRY_RPC_BUILD_COMMIT_H

namespace gantry::rpc {

/// "1a2b3c4d5e6f", with "-dirty" behind it where tracked files were changed; "unknown" where the source was
/// in no git repository of its own.
const char* build_commit();

}  // namespace gantry::rpc
#endif
