// A machine behind gantry's protocol: a board, or this machine in a process of its own.
#pragma once

#include "host/cli/machine.h"
#include "rpc/client/client.h"

namespace gantry::cli {

/// How to connect to a board.
rpc::ConnectOptions connect_options(const BoardChoice& board);

class BoardMachine : public Machine {
 public:
  /// How modules get there: only what its cache lacks, or whole, each time, so that nothing is kept.
  enum class Sending { kMissingSegments, kWhole };
  BoardMachine(std::unique_ptr<rpc::BoardClient> client, std::string label, std::string address,
               Sending sending);

  std::string label() const override { return label_; }
  std::string address() const override { return address_; }
  const rpc::BoardInfo& info() override;
  const rpc::BoardInfo& info_with_gpus() override;
  const rpc::LoadedModule& load(const runtime::SharedBytes& module, const rpc::LoadOptions& options,
                                const rpc::UploadProgress& progress) override;
  void set_input(int index, const HostTensor& tensor) override;
  rpc::RunTime run() override { return client_->run(loaded_.handle); }
  HostTensor output(int index) override { return client_->get_output(loaded_.handle, index); }
  rpc::BenchmarkResult benchmark(const rpc::BenchmarkOptions& options,
                                 const rpc::BenchmarkProgress& progress) override;
  void join_lease(uint64_t token, const rpc::LeaseProgress& progress) override {
    client_->join_lease(token, progress);
  }
  std::optional<rpc::MeasuringQueue> leases() override {
    if (!client_->has_leases()) return std::nullopt;
    return client_->leases();
  }

 protected:
  /// Ends the connection; nothing may be asked afterwards.
  void disconnect() { client_.reset(); }

 private:
  /// Sends what the board's cache lacks, and once more where that turns out to lack something only then.
  void load_from_cache(const runtime::SharedBytes& module, const rpc::LoadOptions& options,
                       const rpc::UploadProgress& progress);
  /// What is read, made up and sent goes by what the board says of the loaded module: throws
  /// rpc::Error(kBoard) where that is not what the module's file says.
  void check_description(const runtime::SharedBytes& module) const;

  std::unique_ptr<rpc::BoardClient> client_;
  std::string label_, address_;
  Sending sending_;
  std::optional<rpc::BoardInfo> info_;
  bool asked_gpus_ = false;
  rpc::ModuleHandle module_;
  rpc::LoadedModule loaded_;
};

}  // namespace gantry::cli
