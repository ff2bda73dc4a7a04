// Feeds the protocol's parsers bytes that no honest peer sends. Usage: fuzz_rpc [ROUNDS [SEED]]; prints its
// seed. Strategies: random frame headers; random payloads; valid requests and responses with bits flipped,
// bytes replaced, and ends cut off or repeated. Each must parse, or fail with Error; anything else is a bug.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "rpc/protocol/message.h"

namespace {

using namespace gantry::rpc;

std::vector<Bytes> valid_payloads() {
  wire::HelloT hello;
  hello.client = "fuzz";
  hello.version_min = hello.version_max = 1;
  wire::QuerySegmentsT query;
  wire::LoadModuleT load;
  load.manifest_size = 100;
  load.cpus = {0, 1, 2};
  load.device = "cpu";
  for (int i = 0; i < 5; ++i) {
    auto name = std::make_unique<wire::SegmentNameT>();
    name->digest = to_wire(DigestBytes{static_cast<std::uint8_t>(i)});
    name->size = 1000;
    query.segments.push_back(std::make_unique<wire::SegmentNameT>(*name));
    load.segments.push_back(std::move(name));
  }
  wire::SetInputT input;
  input.type = std::make_unique<wire::ElementType>(2, 32);
  input.shape = {1, 3, 224, 224};
  input.byte_size = 4 * 3 * 224 * 224;
  wire::BenchmarkT benchmark;
  benchmark.repeat = benchmark.number = 10;
  wire::BenchmarkFinishedT finished;
  finished.samples_ms = {1, 2, 3};
  finished.kernels.push_back(std::make_unique<wire::KernelTimingT>());
  finished.kernels[0]->name = "nn.conv2d";
  finished.cpu_before = std::make_unique<wire::CpuStateT>();
  finished.readings.push_back(std::make_unique<wire::ProbeReadingT>());
  finished.readings[0]->clock_mhz = {1500, 1800};
  finished.reading_cpus = {0, 1};
  finished.probe_notes = {"energy: RAPL package-0"};
  wire::TakeLeaseT lease;
  lease.purpose = "bench resnet18.onnx";
  lease.longest_wait_ms = 1000;
  wire::LeaseQueueT queue;
  queue.holder = std::make_unique<wire::LeaseEntryT>();
  queue.holder->key = "alice";
  queue.waiting.push_back(std::make_unique<wire::LeaseEntryT>());
  queue.waiting[0]->purpose = "tune";
  wire::MeasuredBesideT beside;
  beside.others.push_back(std::make_unique<wire::OtherWorkT>());
  beside.others[0]->address = "10.0.0.1";
  std::vector<Bytes> payloads = {encode_request(1, make_request(std::move(lease))),
                                 encode_response(1, make_response(std::move(queue))),
                                 encode_response(1, make_response(std::move(beside))),
                                 encode_request(1, make_request(std::move(hello))),
                                 encode_request(1, make_request(std::move(query))),
                                 encode_request(1, make_request(std::move(load))),
                                 encode_request(1, make_request(std::move(input))),
                                 encode_request(1, make_request(benchmark)),
                                 encode_response(1, make_response(std::move(finished))),
                                 encode_response(1, make_failure(ErrorKind::kBoard, "the board is on fire"))};
  for (Bytes& payload : payloads) payload.erase(payload.begin(), payload.begin() + kFrameHeaderSize);
  return payloads;
}

Bytes mutate(Bytes bytes, std::mt19937_64& random) {
  for (auto changes = 1 + random() % 8; changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 5) {
      case 0:
        bytes[at] ^= static_cast<std::uint8_t>(1u << random() % 8);
        break;
      case 1:
        bytes[at] = static_cast<std::uint8_t>(random());
        break;
      case 2:
        bytes[at] = random() % 2 ? 0xff : 0;
        break;
      case 3:
        bytes.resize(at);
        break;
      default:
        bytes.insert(bytes.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
        break;
    }
    if (bytes.size() > 1 << 16) bytes.resize(1 << 16);
  }
  return bytes;
}

template <typename Parse>
void attempt(Parse parse, std::size_t& parsed) {
  try {
    parse();
    ++parsed;
  } catch (const Error&) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? std::atol(argv[1]) : 10000;
  const unsigned long seed = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : std::random_device{}();
  std::printf("fuzz_rpc: %ld rounds of each strategy, seed %lu\n", rounds, seed);
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  const std::vector<Bytes> payloads = valid_payloads();
  std::size_t parsed = 0;
  for (long round = 0; round < rounds; ++round) {
    FrameHeaderBytes header;
    for (auto& byte : header) byte = static_cast<std::uint8_t>(random());
    if (round % 2) std::copy(kFrameMagic.begin(), kFrameMagic.end(), header.begin());
    attempt([&] { decode_header(header); }, parsed);
    Bytes noise(random() % 512);
    for (auto& byte : noise) byte = static_cast<std::uint8_t>(random());
    const Bytes mutant = mutate(payloads[random() % payloads.size()], random);
    for (const Bytes* bytes : {static_cast<const Bytes*>(&noise), &mutant}) {
      attempt([&] { following_bytes(decode_request(*bytes)); }, parsed);
      attempt([&] { following_bytes(decode_response(*bytes)); }, parsed);
      attempt([&] { decode_long_result(*bytes); }, parsed);
    }
  }
  std::printf("fuzz_rpc: done, %zu of them were valid\n", parsed);
  return 0;
}
