#include "host/cli/board_machine.h"

#include <fmt/format.h>

#include "device_runtime/src/data_type.h"
#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/module_reader.h"
#include "host/support/error.h"
#include "module_generated.h"

namespace gantry::cli {
namespace {

using module_format::Manifest;
using module_format::TensorInfo;

/// Whether a board says of a tensor what the module's manifest does.
bool same_tensor(const rpc::TensorDescription& told, const TensorInfo& own, const Manifest& manifest) {
  const DLDataType type = runtime::to_dlpack(static_cast<runtime::ElementType>(own.dtype()));
  bool same = told.name == own.name()->str() && told.type == rpc::ElementType{type.code, type.bits} &&
              told.shape.size() == own.shape()->size();
  for (uint32_t axis = 0; same && axis < own.shape()->size(); ++axis) {
    const auto& size = *manifest.dim_exprs()->Get(own.shape()->Get(axis));
    same = told.shape[axis] == runtime::constant_dim(size).value_or(-1);
  }
  return same;
}

bool same_tensors(const std::vector<rpc::TensorDescription>& told,
                  const flatbuffers::Vector<flatbuffers::Offset<TensorInfo>>& own, const Manifest& manifest) {
  bool same = told.size() == own.size();
  for (uint32_t i = 0; same && i < own.size(); ++i) same = same_tensor(told[i], *own.Get(i), manifest);
  return same;
}

}  // namespace

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
    load_from_cache(module, options, progress);
  }
  check_description(module);
  return loaded_;
}

void BoardMachine::load_from_cache(const runtime::SharedBytes& module, const rpc::LoadOptions& options,
                                   const rpc::UploadProgress& progress) {
  module_ = client_->upload(module.bytes, progress);
  try {
    loaded_ = client_->load(module_, options);
  } catch (const rpc::Error& error) {
    // What lies there from earlier may be verified only now, and was deleted where it is damaged.
    if (error.kind() != rpc::ErrorKind::kRetry) throw;
    module_ = client_->upload(module.bytes, progress);
    loaded_ = client_->load(module_, options);
  }
}

void BoardMachine::check_description(const runtime::SharedBytes& module) const {
  auto contents = runtime::ModuleContents::from_bytes(module, /*check_digests=*/false);
  if (!contents.ok()) user_error("{}", contents.status().message());
  const Manifest& manifest = contents->manifest();
  if (!same_tensors(loaded_.inputs, *manifest.inputs(), manifest) ||
      !same_tensors(loaded_.outputs, *manifest.outputs(), manifest))
    throw rpc::Error(rpc::ErrorKind::kBoard,
                     label_ +
                         ": it says that the module has other inputs or outputs than its file; put the "
                         "gantry-device there that came with this gantry");
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
