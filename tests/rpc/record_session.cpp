// Records what a client and a board say to each other in a session that sends every request once.
//
//   record_session PORT FOLDER
//
// PORT: of a gantry-device on this machine, without a key and with an empty cache. Writes
// FOLDER/requests.bin, what the client sent, and FOLDER/answers.bin. tests/rpc/recordings/README.md says
// which recordings there are. It uses nothing of the client that version 0.1 did not have, so that it builds
// with old versions too.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "rpc/client/client.h"
#include "tests/support/test_module.h"

namespace {

using namespace gantry::rpc;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Passes on one connection to a server, and writes down what passes.
class Recorder {
 public:
  Recorder(int server_port, const std::filesystem::path& folder)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        server_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        requests_(folder / "requests.bin", std::ios::binary),
        answers_(folder / "answers.bin", std::ios::binary) {
    const sockaddr_in any = loopback(0), server = loopback(server_port);
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
        ::listen(listener_, 1) != 0)
      throw std::runtime_error("cannot listen");
    if (::connect(server_, reinterpret_cast<const sockaddr*>(&server), sizeof server) != 0)
      throw std::runtime_error("no server listens there");
  }
  ~Recorder() {
    ::close(listener_);
    ::close(server_);
  }
  std::string address() const {
    sockaddr_in bound{};
    socklen_t length = sizeof bound;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &length);
    return "127.0.0.1:" + std::to_string(ntohs(bound.sin_port));
  }
  /// Until one of them closes.
  void pass_on() {
    const int client = ::accept(listener_, nullptr, nullptr);
    while (copy(client)) {
    }
    ::close(client);
  }

 private:
  bool copy(int client) {
    pollfd ends[] = {{client, POLLIN, 0}, {server_, POLLIN, 0}};
    ::poll(ends, 2, -1);
    char buffer[65536];
    for (int from : {0, 1}) {
      if (ends[from].revents == 0) continue;
      const ssize_t count = ::recv(ends[from].fd, buffer, sizeof buffer, 0);
      if (count <= 0) return false;
      (from == 0 ? requests_ : answers_).write(buffer, count);
      for (ssize_t done = 0; done < count;)
        done += std::max<ssize_t>(
            0, ::send(ends[1 - from].fd, buffer + done, static_cast<std::size_t>(count - done), 0));
    }
    return true;
  }
  int listener_, server_;
  std::ofstream requests_, answers_;
};

void talk(const std::string& address) {
  ConnectOptions options;
  options.address = address;
  auto client = BoardClient::connect(options);
  client->ping();
  client->board_info();
  client->board_info(/*gpus=*/true);
  const auto handle = client->load(client->upload(gantry::testing::build({})), {.threads = 1}).handle;
  const float values[] = {1, 2, 3, 4};
  const std::int64_t shape[] = {4};
  client->set_input(handle, 0, {}, shape, std::as_bytes(std::span(values)));
  client->run(handle);
  const Tensor output = client->get_output(handle, 0);
  std::printf("%zu bytes of output\n", output.bytes.size());
  BenchmarkOptions benchmark;
  benchmark.repeat = 7;
  benchmark.profile = true;
  const BenchmarkResult result = client->benchmark(handle, benchmark);
  std::printf("%zu samples, %zu kernels\n", result.samples_ms.size(), result.kernels.size());
  client->unload(handle);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: record_session PORT FOLDER\n");
    return 1;
  }
  try {
    Recorder recorder(std::atoi(argv[1]), argv[2]);
    const std::string address = recorder.address();
    std::jthread passing([&] { recorder.pass_on(); });
    talk(address);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "record_session: %s\n", error.what());
    return 1;
  }
  return 0;
}
