#include "host/farm/job_comment.h"

#include <chrono>
#include <thread>

namespace gantry::farm {

void tell_client(Slurm& slurm, JobId job, const LeaseComment& comment, const std::function<bool()>& wanted) {
  constexpr std::chrono::milliseconds kPause{2000};
  constexpr int kMostRefusals = 5;
  for (int tries = 0; wanted(); ++tries) {
    try {
      return slurm.set_comment(job, to_text(comment));
    } catch (const SlurmError& error) {
      if (!error.unreachable() && tries >= kMostRefusals) return;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace gantry::farm
