#include "host/cli/board_machine.h"

#include <fmt/format.h>

#include "host/support/error.h"

namespace gantry::cli {

BoardMachine::BoardMachine(std::unique_ptr<rpc::BoardClient> client, std::string label, std::string address,
                           Sending sending)
    : client_(std::move(client)), label_(std::move(label)), address_(std::move(address)), sending_(sending) {}

const rpc::BoardInfo& BoardMachine::info() {
  if (!info_) info_ = client_->board_info();
  return *info_;
}

const rpc::BoardInfo& BoardMachine::info_with_gpus() {
  if (!asked_gpus_) info_ = client_->board_info(/*gpus=*/true);
  asked_gpus_ = true;
  return *info_;
}

const rpc::LoadedModule& BoardMachine::load(const runtime::SharedBytes& module,
                                            const rpc::LoadOptions& options,
                                            const rpc::UploadProgress& progress) {
  if (loaded_.handle != 0) client_->unload(loaded_.handle);
  loaded_ = {};
  if (sending_ == Sending::kWhole) {
    loaded_ = client_->load_whole(module.bytes, options);
  } else {
    module_ = client_->upload(module.bytes, progress);
    loaded_ = client_->load(module_, options);
  }
  return loaded_;
}

void BoardMachine::set_input(int index, const HostTensor& tensor) {
  client_->set_input(loaded_.handle, index, tensor.type, tensor.shape, tensor.bytes);
}

rpc::BenchmarkResult BoardMachine::benchmark(const rpc::BenchmarkOptions& options,
                                             const rpc::BenchmarkProgress& progress) {
  rpc::BenchmarkResult result = client_->benchmark(loaded_.handle, options, progress);
  result.board = info();
  return result;
}

rpc::ConnectOptions connect_options(const BoardChoice& board) {
  rpc::ConnectOptions options;
  options.address = board.entry.address;
  options.label = board.label;
  if (!board.entry.key.empty()) options.key = rpc::read_key_file(board.entry.key);
  return options;
}

std::unique_ptr<Machine> connect_board(const BoardChoice& board) {
  const std::string label = board.label == board.entry.address
                                ? board.label
                                : fmt::format("{} ({})", board.label, board.entry.address);
  return std::make_unique<BoardMachine>(rpc::BoardClient::connect(connect_options(board)), label,
                                        board.entry.address, BoardMachine::Sending::kMissingSegments);
}

}  // namespace gantry::cli
