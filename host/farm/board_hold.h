// A lease's job, on the gateway: finds a board that is free and well, opens it to the lease's key, and keeps
// it.
#pragma once

#include <filesystem>
#include <string>

#include "host/farm/slurm.h"
#include "rpc/security/key.h"

namespace gantry::farm {

struct HoldRequest {
  std::string board_type;
  std::string lease;      ///< its name
  rpc::PskKey key;        ///< made for it, and of no use when it is over
  double seconds = 3600;  ///< that the job has
  double unused_s = 60;   ///< without a client: it was killed, and the board is wanted by others
};

/// Until the job's time is over, nobody uses the board, or it dies. Returns the exit code of the job: 0, or 2
/// where no board was well or the one that it had died. A signal that ends the process takes the key with it;
/// where SIGKILL does, the next job on that board removes it.
int hold_board(const std::filesystem::path& farm, const HoldRequest& request, Slurm& slurm, JobId job);

/// Connects with a key of its own, put into the board's key folder for the while, and asks the board what it
/// is: its CPU. Throws what is wrong, as an Error or rpc::Error.
std::string check_board(const std::string& address, const std::filesystem::path& keys);

}  // namespace gantry::farm
