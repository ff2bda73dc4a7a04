#include "rpc/server/session_board.h"

#include "rpc/server/board_info.h"

namespace gantry::rpc {

wire::BoardDescriptionT SessionBoard::describe(bool gpus) {
  wire::BoardDescriptionT board = describe_board(options_);
  if (!gpus) return board;
  if (!gpus_) {
    gpus_.emplace();
    add_gpus(*gpus_);
  }
  board.gpus.clear();
  for (const auto& gpu : gpus_->gpus) board.gpus.push_back(std::make_unique<wire::GpuDescriptionT>(*gpu));
  board.gpu_problem = gpus_->gpu_problem;
  return board;
}

}  // namespace gantry::rpc
