// A lab in simulated time: boards, a Slurm, tuners that lease boards as gantry does (LeaseMachine) and store
// records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gantry::farm {

struct LabOptions {
  size_t boards = 1000, tuners = 50;
  size_t most_boards = 40;      ///< that a tuner leases at once
  size_t trials = 100'000;      ///< of each tuner
  double trial_s = 2.5;         ///< mean: upload, warm-up, samples; exponential beside a fixed half of it
  double lease_s = 3600;        ///< after which Slurm ends a lease
  double arrival_s = 1800;      ///< tuners begin within that time
  double schedule_every_s = 2;  ///< Slurm starts jobs so often (seen on loopback: 2 s after sbatch)
  size_t starts_at_once = 100;  ///< and so many at most (its default_queue_depth)
  double prepare_s = 1;         ///< from a job's start to its board's being ready
  double look_every_s = 10;     ///< a tuner asks squeue for all of its leases
  double store_every_s = 1;     ///< a tuner's records go to the database in one transaction
  double board_fails_s = 500 * 3600.0,
         repair_s = 1800;  ///< mean time between failures of a board; until it is well
  double controller_fails_s = 1800, controller_away_s = 60, forgotten_s = 5;  ///< and what it loses
  double tuner_killed_s =
      1800;  ///< mean time until one of all tuners is killed; it is started again after 60 s
  uint64_t seed = 1;
};

struct LabResult {
  double hours = 0;        ///< until the last tuner was done
  size_t records = 0;      ///< that were stored
  size_t repeated = 0;     ///< trials of which two records were stored
  size_t lost = 0;         ///< trials without a record
  size_t overlaps = 0;     ///< moments at which two leases had one board
  size_t cut_off = 0;      ///< trials that a lease's end, a dead board or a killed tuner interrupted
  double utilisation = 0;  ///< of boards, while any tuner had work: share of their time in trials
  double wait_mean_s = 0, wait_p95_s = 0, wait_max_s = 0;  ///< from wanting a lease to its board
  double records_per_s = 0, peak_records_per_s = 0;        ///< mean; the busiest minute
  double transactions_per_s = 0, peak_transactions_per_s = 0;
  double bytes_per_day = 0;                   ///< of records
  double sbatch_per_s = 0, squeue_per_s = 0;  ///< that Slurm answered
  size_t most_jobs = 0, submissions = 0, forgotten = 0, boards_died = 0, tuners_killed = 0,
         controller_starts = 0;
};

LabResult simulate_lab(const LabOptions& options);
std::string to_text(const LabOptions& options, const LabResult& result);

}  // namespace gantry::farm
