// Builds programs of a model that a tuner elsewhere sends: what a compile host does.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "host/support/output_file.h"
#include "host/support/temporary.h"
#include "host/tune/model_build.h"
#include "rpc/builds/build_server.h"

namespace gantry::cli {

/// The model lies in a temporary folder. Kernels that were compiled before are taken from this user's cache,
/// if the model is to be built so.
class BuildWorker : public rpc::BuildHandler {
 public:
  /// `threads`: that build at most; 0: as many as there are CPUs.
  explicit BuildWorker(int threads) : threads_(threads) {}

  void begin_model(const std::string& options, uint64_t text_size, uint64_t weights_size) override;
  void add_to_model(std::span<const std::byte> piece) override;
  void end_model() override;
  rpc::BuildAnswer build(const std::string& decisions) override;

 private:
  int threads_;
  std::string options_;
  uint64_t text_left_ = 0;
  std::optional<TemporaryFolder> folder_;
  std::optional<OutputFile> text_, weights_;
  std::optional<tune::UnpackedModel> model_;
};

}  // namespace gantry::cli
