// Figures of the connection to a board: over loopback, TLS with a pre-shared key, gantry-device as a process
// of its own with an empty cache. Usage: rpc_transfer [MODULE.gmod]. Without a module it sends one of
// resnet18's size; the file's first input is fed zeros. Prints medians over several servers.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "rpc/client/client.h"
#include "rpc/security/key.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace {

using gantry::rpc::BoardClient;
using gantry::testing::ServerProcess;
using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

constexpr int kServers = 7;
constexpr std::int64_t kTensorBytes = 64'000'000;
constexpr std::uint64_t kSegmentBytes = 400'000'000;
constexpr int kCalls = 5000;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}
double median(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

Bytes read_file(const char* path) {
  Bytes bytes(std::filesystem::file_size(path));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

/// A fresh server with a key and an empty cache, and how to reach it.
struct Board {
  gantry::testing::TemporaryDirectory directory;
  std::unique_ptr<ServerProcess> server;
  gantry::rpc::ConnectOptions options;

  Board() {
    options.key = gantry::rpc::generate_key("benchmark");
    const auto file = directory.path() / "key";
    std::ofstream(file) << gantry::rpc::key_file_text(*options.key);
    // A key that others can read is refused.
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
    server = std::make_unique<ServerProcess>(std::vector<std::string>{"--key", file.string()});
    options.address = server->address();
  }
};

/// Milliseconds until connected, uploaded, and the first output is here.
struct FirstUse {
  double connected, uploaded, result;
};

FirstUse use_once(const Board& board, const Bytes& file) {
  FirstUse times{};
  const auto start = Clock::now();
  const auto client = BoardClient::connect(board.options);
  times.connected = ms_since(start);
  const auto handle = client->upload(file);
  times.uploaded = ms_since(start);
  const auto module = client->load(handle, {.threads = 1});
  const auto& input = module.inputs.at(0);
  const std::int64_t count =
      std::accumulate(input.shape.begin(), input.shape.end(), std::int64_t{1}, std::multiplies<>());
  const Bytes zeros(static_cast<std::size_t>(count) * input.type.bits / 8);
  client->set_input(module.handle, 0, input.type, input.shape, zeros);
  client->run(module.handle);
  client->get_output(module.handle, 0);
  times.result = ms_since(start);
  return times;
}

void measure_use(const Bytes& file) {
  std::vector<double> connected[2], uploaded[2], result[2];
  for (int i = 0; i < kServers; ++i) {
    const Board board;
    for (int time = 0; time < 2; ++time) {
      const FirstUse use = use_once(board, file);
      connected[time].push_back(use.connected);
      uploaded[time].push_back(use.uploaded);
      result[time].push_back(use.result);
    }
  }
  const char* labels[] = {"first", "second"};
  for (int time = 0; time < 2; ++time)
    std::printf("%s use of a module of %.1f MB: connected %.1f ms, uploaded %.1f ms, result %.1f ms\n",
                labels[time], static_cast<double>(file.size()) / 1e6, median(connected[time]),
                median(uploaded[time]), median(result[time]));
}

void measure_segments() {
  const Bytes large = gantry::testing::build({.weights_bytes = kSegmentBytes});
  std::vector<double> rates;
  for (int i = 0; i < kServers; ++i) {
    const Board board;
    const auto client = BoardClient::connect(board.options);
    const auto start = Clock::now();
    client->upload(large);
    rates.push_back(kSegmentBytes / ms_since(start) / 1e3);
  }
  std::printf("segments: %.0f MB/s (%.0f to %.0f)\n", median(rates), quantile(rates, 0), quantile(rates, 1));
}

void measure_tensors() {
  const Board board;
  const auto client = BoardClient::connect(board.options);
  const std::int64_t shape[] = {kTensorBytes / 4};
  const auto handle =
      client->upload(gantry::testing::build({.body = "out[0] = in[0]; return 0;", .elements = shape[0]}));
  const auto module = client->load(handle, {.threads = 1});
  const Bytes input(kTensorBytes, std::byte{1});
  std::vector<double> in, out;
  for (int i = 0; i < 3 * kServers; ++i) {
    auto start = Clock::now();
    client->set_input(module.handle, 0, {}, shape, input);
    in.push_back(kTensorBytes / ms_since(start) / 1e3);
    client->run(module.handle);
    start = Clock::now();
    const auto output = client->get_output(module.handle, 0);
    out.push_back(kTensorBytes / ms_since(start) / 1e3);
  }
  std::printf("tensors: %.0f MB/s to the board (%.0f to %.0f), %.0f MB/s back (%.0f to %.0f)\n", median(in),
              quantile(in, 0), quantile(in, 1), median(out), quantile(out, 0), quantile(out, 1));
}

void measure_calls() {
  const Board board;
  const auto client = BoardClient::connect(board.options);
  std::vector<double> trips;
  for (int i = 0; i < kCalls; ++i)
    trips.push_back(std::chrono::duration<double, std::micro>(client->ping()).count());
  std::printf("empty call: median %.0f us, p99 %.0f us\n", median(trips), quantile(trips, 0.99));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    measure_use(argc > 1 ? read_file(argv[1]) : gantry::testing::build({.weights_bytes = 46'800'000}));
    measure_segments();
    measure_tensors();
    measure_calls();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rpc_transfer: %s\n", error.what());
    return 1;
  }
}
