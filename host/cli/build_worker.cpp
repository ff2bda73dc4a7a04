#include "host/cli/build_worker.h"

#include <algorithm>

#include "host/cli/model_source.h"
#include "host/support/error.h"
#include "host/targets/common/knob_misfit.h"

namespace gantry::cli {

void BuildWorker::begin_model(const std::string& options, uint64_t text_size, uint64_t weights_size) {
  model_.reset();
  text_.reset();
  weights_.reset();
  folder_.emplace("build");
  options_ = options;
  text_left_ = text_size;
  text_.emplace(folder_->path() / tune::kPackedText);
  if (weights_size > 0) weights_.emplace(folder_->path() / tune::kPackedWeights);
}

void BuildWorker::add_to_model(std::span<const std::byte> piece) {
  const auto of_text = static_cast<size_t>(std::min<uint64_t>(piece.size(), text_left_));
  text_->write(piece.data(), of_text);
  text_left_ -= of_text;
  if (of_text < piece.size()) weights_->write(piece.data() + of_text, piece.size() - of_text);
}

void BuildWorker::end_model() {
  text_->commit(/*durable=*/false);
  if (weights_) weights_->commit(/*durable=*/false);
  model_ = tune::unpack_model(options_, folder_->path());
  model_->options.cache = open_cache(model_->use_cache);
  if (threads_ > 0) model_->options.threads = std::min(model_->options.threads, threads_);
}

rpc::BuildAnswer BuildWorker::build(const std::string& decisions) {
  if (!model_) user_error("no model was sent before the first build");
  rpc::BuildAnswer answer;
  try {
    tune::ModelBuild built = tune::build_model(model_->graph, model_->options, decisions, model_->program);
    answer.module = serialize_module(built.module);
    answer.steps = tune::step_text(built.step_origins);
  } catch (const KnobMisfit& error) {
    answer.failure = {true, error.what()};
  } catch (const Error& error) {
    answer.failure = {false, error.what()};
  }
  return answer;
}

}  // namespace gantry::cli
