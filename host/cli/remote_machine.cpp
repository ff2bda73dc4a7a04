#include <fmt/format.h>

#include "host/cli/machine.h"
#include "host/support/error.h"
#include "rpc/client/client.h"

namespace gantry::cli {
namespace {

class RemoteMachine : public Machine {
 public:
  explicit RemoteMachine(const BoardChoice& board) : board_(board), client_(connect(board)) {}

  std::string label() const override {
    return board_.label == board_.entry.address ? board_.label
                                                : fmt::format("{} ({})", board_.label, board_.entry.address);
  }
  std::string address() const override { return board_.entry.address; }

  const rpc::BoardInfo& info() override {
    if (!info_) info_ = client_->board_info();
    return *info_;
  }

  const rpc::BoardInfo& info_with_gpus() override {
    if (!asked_gpus_) info_ = client_->board_info(/*gpus=*/true);
    asked_gpus_ = true;
    return *info_;
  }

  const rpc::LoadedModule& load(const runtime::SharedBytes& module, const rpc::LoadOptions& options,
                                const rpc::UploadProgress& progress) override {
    if (loaded_.handle != 0) client_->unload(loaded_.handle);
    loaded_ = {};
    module_ = client_->upload(module.bytes, progress);
    loaded_ = client_->load(module_, options);
    return loaded_;
  }

  void set_input(int index, const HostTensor& tensor) override {
    client_->set_input(loaded_.handle, index, tensor.type, tensor.shape, tensor.bytes);
  }
  std::chrono::nanoseconds run() override { return client_->run(loaded_.handle); }
  HostTensor output(int index) override { return client_->get_output(loaded_.handle, index); }

  rpc::BenchmarkResult benchmark(const rpc::BenchmarkOptions& options,
                                 const rpc::BenchmarkProgress& progress) override {
    rpc::BenchmarkResult result = client_->benchmark(loaded_.handle, options, progress);
    if (asked_gpus_) result.board.gpus = info_->gpus;
    return result;
  }

 private:
  static std::unique_ptr<rpc::BoardClient> connect(const BoardChoice& board) {
    rpc::ConnectOptions options;
    options.address = board.entry.address;
    if (!board.entry.key.empty()) options.key = rpc::read_key_file(board.entry.key);
    return rpc::BoardClient::connect(options);
  }

  BoardChoice board_;
  std::unique_ptr<rpc::BoardClient> client_;
  std::optional<rpc::BoardInfo> info_;
  bool asked_gpus_ = false;
  rpc::ModuleHandle module_;
  rpc::LoadedModule loaded_;
};

}  // namespace

std::unique_ptr<Machine> connect_board(const BoardChoice& board) {
  return std::make_unique<RemoteMachine>(board);
}

}  // namespace gantry::cli
