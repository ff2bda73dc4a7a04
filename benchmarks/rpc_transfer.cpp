// Figures of the connection to a board. Usage: rpc_transfer ADDRESS [KEY_FILE]
// Prints connect, upload, round trip and tensor rates. Start gantry-device yourself.
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "rpc/client/client.h"
#include "tests/support/test_module.h"

namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

void use_board(const gantry::rpc::ConnectOptions& options, const std::vector<std::byte>& file, const char* label) {
  const auto start = Clock::now();
  auto client = gantry::rpc::BoardClient::connect(options);
  const double connected = ms_since(start);
  const auto handle = client->upload(file);
  const double uploaded = ms_since(start);
  const auto module = client->load(handle, {.threads = 1});
  const std::int64_t shape[] = {4};
  const float values[] = {1, 2, 3, 4};
  client->set_input(module.handle, 0, {}, shape, std::as_bytes(std::span(values)));
  client->run(module.handle);
  client->get_output(module.handle, 0);
  std::printf("%s: connected %.1f ms, uploaded %.1f ms (%.1f MB sent), first result %.1f ms\n", label, connected, uploaded,
              static_cast<double>(handle.report().sent_bytes) / 1e6, ms_since(start));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: rpc_transfer ADDRESS [KEY_FILE]\n"), 1;
  gantry::rpc::ConnectOptions options;
  options.address = argv[1];
  if (argc > 2) options.key = gantry::rpc::read_key_file(argv[2]);
  const auto file = gantry::testing::build({.weights_bytes = 46'800'000 / 64 * 64, .seed = std::random_device{}()});
  use_board(options, file, "first time");
  use_board(options, file, "second time");
  const auto large = gantry::testing::build({.weights_bytes = 400'000'000, .seed = std::random_device{}()});
  auto client = gantry::rpc::BoardClient::connect(options);
  const auto start = Clock::now();
  client->upload(large);
  std::printf("segments: %.0f MB/s\n", 400.0 / ms_since(start) * 1000);
  std::vector<double> trips;
  for (int i = 0; i < 2000; ++i) trips.push_back(std::chrono::duration<double, std::micro>(client->ping()).count());
  std::sort(trips.begin(), trips.end());
  std::printf("empty call: median %.0f us, p99 %.0f us\n", trips[1000], trips[1980]);
  return 0;
}
