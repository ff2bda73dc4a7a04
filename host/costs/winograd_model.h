// The analytic model of Winograd's algorithm on a CPU: how its loops are cut, and what they take.
#pragma once

#include <optional>

#include "host/costs/tile_model.h"
#include "host/costs/unfit_knob.h"
#include "host/graph/decision.h"
#include "host/machine/tile_unit.h"

namespace gantry::costs {

/// What a plan is to have, by a decision's knobs; where it is 0, or input_at_root -1: whatever takes the least.
struct GivenPlan {
  int rows = 0;            ///< of the register tile
  int64_t chunk = 0;       ///< WinogradPlan::chunk
  int input_at_root = -1;  ///< WinogradPlan::input_at_root
};
/// `decision` may be null.
GivenPlan given_plan(const Decision* decision);

/// A convolution by Winograd's algorithm, F(tile x tile, 3x3). Extents of the result.
struct WinogradWork {
  int64_t tile = 4;
  int64_t batch = 1, height = 1, width = 1;
  bool symbolic = false;            ///< height and width are guesses
  int64_t inputs = 1, outputs = 1;  ///< of a group
  int64_t groups = 1;
  int element_bytes = 4;
  bool half = false;  ///< transformed data and weights in f16, multiplied and summed as ProductWork::half
  int64_t tile_parts = 0;        ///< not 0: products on tile registers, with weights in so many bf16 parts
  TileUnit tile_unit{};          ///< which
  GivenPlan given = {};
  int64_t data_bytes() const;    ///< of an element of the transformed data
  int64_t weight_bytes() const;  ///< and weights
};

/// How its loops are cut (host/targets/cpu/rule_winograd.cpp).
struct WinogradPlan {
  /// Register tile of the products; its channel block is the weights'. On tile registers only the block
  /// counts: channels whose products are made before they are transformed.
  ProductTile product;
  int64_t chunk = 1;          ///< tiles whose products are made at once, in the order of rows of an image
  bool within_row = false;    ///< chunks end where a row of tiles does
  bool input_at_root = true;  ///< the whole transformed input is made first (no groups); else each chunk's,
                              ///< of its group, where it is used
  double cycles = 0;          ///< on one core, for all groups
};

/// The products of a chunk at one position.
ProductWork chunk_product(const WinogradWork& work, const WinogradPlan& plan);

/// The best plan; with channel_block > 0, of those that read weights so packed.
WinogradPlan plan_winograd(const WinogradWork& work, const MachineModel& machine, int64_t channel_block = 0);

/// The first knob of work.given that `best`, the best plan of the work, has not: then no plan has it beside the others.
std::optional<UnfitKnob> unfit_knob(const WinogradWork& work, const WinogradPlan& best);

}  // namespace gantry::costs
