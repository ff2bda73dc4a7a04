// What a client keeps of its board: the connection and what was loaded over it. Private to rpc/client.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rpc/client/client.h"
#include "rpc/client/module_layout.h"
#include "rpc/protocol/channel.h"
#include "rpc/security/tls.h"

namespace gantry::rpc {

/// Where an output's bytes go, once `accept` has seen what is announced and not thrown.
struct OutputData {
  std::function<void(const wire::OutputT&)> accept;
  std::vector<std::byte> bytes;
};

struct BoardClient::Impl {
  asio::io_context io{1};
  ConnectOptions options;
  TlsContext tls;
  std::unique_ptr<FrameChannel> channel;
  std::uint32_t next_id = 1;
  std::uint32_t board_deadline_ms = 0;
  std::uint64_t board_features = 0;
  std::map<std::uint32_t, std::vector<TensorDescription>> outputs;  ///< of each loaded module
  std::optional<std::uint32_t>
      discarded_id;  ///< whose data frames belong to an answer that nobody here knows
  LeaseProgress lease_progress;  ///< of a request that waits for its turn
  wire::MeasuredBesideT beside;  ///< the last benchmark
  Watchdog* watchdog = nullptr;  ///< of the call that is under way
  bool dead = false;

  /// "board pi (192.168.1.20:7453)"; the label alone where there is no address.
  std::string named() const {
    if (options.address.empty()) return options.label;  // not a board, but this machine
    const bool has_name = !options.label.empty() && options.label != options.address;
    return "board " + (has_name ? options.label + " (" + options.address + ")" : options.address);
  }
  Error broken(const std::string& why) const { return Error(ErrorKind::kReconnect, named() + ": " + why); }

  wire::ResponseT finish(asio::awaitable<wire::ResponseT> task);
  /// Runs one exchange under a deadline; 0: none. Whatever breaks the stream makes the client useless.
  wire::ResponseT call(asio::awaitable<wire::ResponseT> task, std::chrono::milliseconds timeout);
  asio::awaitable<void> connect();
  asio::awaitable<void> greet();
  std::unique_ptr<BoardClient> open(std::unique_ptr<Impl> self, asio::awaitable<void> task);
  asio::awaitable<std::unique_ptr<Stream>> open_stream(asio::ip::tcp::socket socket);
  asio::awaitable<void> receive_data(std::uint32_t id, std::uint64_t size, std::vector<std::byte>& data);
  asio::awaitable<wire::ResponseT> receive(std::uint32_t id, OutputData* data,
                                           const BenchmarkProgress& progress);
  asio::awaitable<wire::ResponseT> exchange(wire::RequestT request, std::span<const std::byte> data = {},
                                            OutputData* answer_data = nullptr,
                                            BenchmarkProgress progress = {});
  template <typename Answer>
  Answer ask(wire::RequestT request, std::chrono::milliseconds timeout, std::span<const std::byte> data = {},
             OutputData* answer_data = nullptr, BenchmarkProgress progress = {});
  void require_leases() const;
  void hear_progress(wire::ResponseT& response, const BenchmarkProgress& progress);
  std::chrono::milliseconds long_timeout(std::chrono::milliseconds deadline) const;
  LoadedModule loaded(wire::ModuleLoadedT answer);
  BenchmarkResult result_of(wire::BenchmarkFinishedT finished) const;
  void check_output(std::uint32_t handle, std::int32_t index, const wire::OutputT& output) const;
  void send_segment(std::span<const std::byte> file, const ModuleSegment& segment, std::uint64_t offset,
                    const std::function<void(std::uint64_t)>& on_sent);
  asio::awaitable<wire::ResponseT> receive_verdict(std::uint32_t id);
  void send_missing(std::span<const std::byte> file, ModuleHandle::Contents& module,
                    const UploadProgress& progress);
};

template <typename Answer>
Answer BoardClient::Impl::ask(wire::RequestT request, std::chrono::milliseconds timeout,
                              std::span<const std::byte> data, OutputData* answer_data,
                              BenchmarkProgress progress) {
  wire::ResponseT response =
      call(exchange(std::move(request), data, answer_data, std::move(progress)), timeout);
  auto* answer = response.body.type == wire::ResponseBodyUnionTraits<Answer>::enum_value
                     ? static_cast<Answer*>(response.body.value)
                     : nullptr;
  if (!answer) throw Error(ErrorKind::kBug, named() + ": an answer of an unexpected kind");
  return std::move(*answer);
}

}  // namespace gantry::rpc
