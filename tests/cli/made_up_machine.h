// A machine that answers as a test wants.
#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>

#include "host/cli/machine.h"

namespace gantry::cli::testing {

/// Answers benchmarks with what it was given.
class MadeUpMachine : public Machine {
 public:
  std::string label() const override { return "pi (pi:7453)"; }
  const rpc::BoardInfo& info() override { return info_; }
  const rpc::BoardInfo& info_with_gpus() override { return info_; }
  const rpc::LoadedModule& load(const runtime::SharedBytes&, const rpc::LoadOptions&,
                                const rpc::UploadProgress&) override {
    throw std::logic_error("nothing is loaded");
  }
  void set_input(int, const HostTensor&) override { throw std::logic_error("it has no inputs"); }
  rpc::RunTime run() override {
    if (!run_takes) throw std::logic_error("it is not run");
    rpc::RunTime time;
    time.run = *run_takes;
    return time;
  }
  HostTensor output(int) override { throw std::logic_error("it has no outputs"); }
  rpc::BenchmarkResult benchmark(const rpc::BenchmarkOptions& options,
                                 const rpc::BenchmarkProgress&) override {
    asked = options;
    return answer;
  }

  std::optional<std::chrono::milliseconds> run_takes;  ///< none: it is not to be run
  rpc::BenchmarkOptions asked;
  rpc::BenchmarkResult answer;

 private:
  rpc::BoardInfo info_;
};

}  // namespace gantry::cli::testing
