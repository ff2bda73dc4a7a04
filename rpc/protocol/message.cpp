#include "rpc/protocol/message.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "rpc/protocol/flat_message.h"

namespace gantry::rpc {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kRequest, message);
}

[[noreturn]] void refuse_unknown(wire::RequestBody kind) {
  throw Error(ErrorKind::kRequest,
              "the board's gantry-device does not know requests of kind " +
                  std::to_string(static_cast<int>(kind)) + ": it is older than this client",
              /*unsupported=*/true);
}
[[noreturn]] void refuse_unknown(wire::ResponseBody kind) {
  throw Error(ErrorKind::kBoard,
              "its gantry-device is newer than this gantry, which does not know answers of kind " +
                  std::to_string(static_cast<int>(kind)) + ": update gantry",
              /*unsupported=*/true);
}

/// Adds up texts and lists of what is to be unpacked. Fields of a damaged message can all point at the same
/// long text: of one mebibyte they would unpack to gibibytes. Ours stores each once, so that its own length
/// is enough.
class UnpackedBytes {
 public:
  explicit UnpackedBytes(std::size_t most) : left_(most) {}
  void add(std::initializer_list<const flatbuffers::String*> texts) {
    for (const flatbuffers::String* text : texts) take(text ? text->size() : 0);
  }
  template <typename T>
  void add(const flatbuffers::Vector<T>* list) {
    take(list ? list->size() * sizeof(T) : 0);
  }
  /// A list of texts: each has its place in the list and its length in a message that stores it once, which
  /// bounds empty ones, too.
  void add(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* texts) {
    constexpr std::size_t kPlaceAndLength = 2 * sizeof(flatbuffers::uoffset_t);
    add_rows(texts, [&](const flatbuffers::String& text) { take(kPlaceAndLength + text.size()); });
  }
  template <typename Row, typename Add>
  void add_rows(const flatbuffers::Vector<flatbuffers::Offset<Row>>* rows, Add add_row) {
    for (flatbuffers::uoffset_t i = 0; rows && i < rows->size(); ++i) add_row(*rows->Get(i));
  }

 private:
  void take(std::size_t bytes) {
    if (bytes > left_) throw Error(ErrorKind::kBug, "a message is damaged: it says the same over and over");
    left_ -= bytes;
  }
  std::size_t left_;
};

void check_unpacked(const wire::Request&, std::size_t) {}  // rows of requests are of fixed sizes

void check_unpacked(const wire::Response& response, std::size_t most) {
  UnpackedBytes bytes(most);
  const auto tensor = [&](const wire::TensorDescription& row) {
    bytes.add({row.name()});
    bytes.add(row.shape());
  };
  if (const auto* board = response.body_as_BoardDescription()) {
    bytes.add(board->features());
    bytes.add_rows(board->gpus(), [&](const wire::GpuDescription& row) {
      bytes.add({row.name(), row.driver()});
    });
  } else if (const auto* module = response.body_as_ModuleLoaded()) {
    bytes.add_rows(module->inputs(), tensor);
    bytes.add_rows(module->outputs(), tensor);
  } else if (const auto* finished = response.body_as_BenchmarkFinished()) {
    bytes.add(finished->probe_notes());
    bytes.add_rows(finished->readings(), [&](const wire::ProbeReading& row) { bytes.add(row.clock_mhz()); });
    bytes.add_rows(finished->kernels(), [&](const wire::KernelTiming& row) {
      bytes.add({row.name(), row.origin(), row.symbol(), row.op()});
    });
  } else if (const auto* queue = response.body_as_LeaseQueue()) {
    bytes.add_rows(queue->waiting(), [&](const wire::LeaseEntry& row) {
      bytes.add({row.key(), row.address(), row.purpose()});
    });
  } else if (const auto* beside = response.body_as_MeasuredBeside()) {
    bytes.add_rows(beside->others(), [&](const wire::OtherWork& row) {
      bytes.add({row.key(), row.address()});
    });
  }
}

template <typename Table>
auto decode(std::span<const std::uint8_t> payload) {
  const FlatMessage<Table> message(payload);
  using Body = decltype(message->body_type());
  // A union member that this version does not know verifies, but would unpack to nothing.
  if (message->body_type() > Body::MAX) refuse_unknown(message->body_type());
  check_unpacked(*message, payload.size());
  typename Table::NativeTableType native;
  message->UnPackTo(&native);
  return native;
}

void check(const wire::HelloT& hello) {
  if (hello.version_min > hello.version_max) refuse("the version range of the first message is empty");
}

void check(const wire::QuerySegmentsT& query) {
  if (query.segments.size() > kMaxSegments) refuse("too many segments in one query");
  for (const auto& segment : query.segments)
    if (segment->size > kMaxModuleBytes) refuse("a segment is larger than a module may be");
}

void check(const wire::UploadSegmentT& upload) {
  if (upload.size > kMaxModuleBytes) refuse("a segment is larger than a module may be");
  if (upload.offset > upload.size) refuse("an upload starts behind the end of its segment");
}

void check(const wire::LoadModuleT& load) {
  if (load.manifest_size == 0 || load.manifest_size > (load.whole ? kMaxModuleBytes : kMaxManifestBytes))
    refuse(load.whole ? "the module has an impossible size" : "the module's manifest has an impossible size");
  if (load.whole && !load.segments.empty()) refuse("a module that is sent whole needs no segments");
  if (load.segments.size() > kMaxSegments) refuse("too many segments in one module");
  for (const auto& segment : load.segments)
    if (segment->size == 0 || segment->size > kMaxModuleBytes)
      refuse("a segment of the module has an impossible size");
  if (load.cpus.size() > kMaxCpus) refuse("too many CPUs to pin threads to");
  if (load.threads < 0 || load.threads > 4096) refuse("the number of threads must lie between 0 and 4096");
}

void check(const wire::SetInputT& input) {
  if (input.shape.size() > kMaxTensorRank) refuse("an input has more than 16 dimensions");
  if (!has_fitting_bytes(input.type->code(), input.type->bits(), input.shape, input.byte_size))
    refuse("input " + std::to_string(input.index) + ": the bytes announced do not match its type and shape");
}

void check(const wire::BenchmarkT& benchmark) {
  if (benchmark.repeat == 0 || benchmark.repeat > kMaxRepeats || benchmark.number == 0 ||
      benchmark.number > kMaxRepeats || benchmark.warmup > kMaxRepeats)
    refuse(
        "a benchmark's repeat and number must lie between 1 and 1000000, its warm-up between 0 and 1000000");
  const auto sensible = [](double ms) { return std::isfinite(ms) && ms >= 0 && ms <= 3.6e6; };
  if (!sensible(benchmark.min_repeat_ms) || !sensible(benchmark.cooldown_ms) ||
      !sensible(benchmark.duration_ms))
    refuse("a benchmark's times must lie between 0 and one hour");
  if (benchmark.streams > kMaxStreams)
    refuse("a benchmark may run at most " + std::to_string(kMaxStreams) + " streams");
}

void check(const wire::TakeLeaseT& lease) {
  if (lease.priority > kMaxLeasePriority) refuse("a lease's priority must lie between 0 and 2");
  if (lease.purpose.size() > kMaxPurpose) refuse("what a lease is for must be said in 160 bytes");
}

bool is_consistent(const wire::OutputT& output) {
  try {
    return output.shape.size() <= kMaxTensorRank &&
           has_fitting_bytes(output.type->code(), output.type->bits(), output.shape, output.byte_size);
  } catch (const Error&) {
    return false;  // no request of this side's is wrong
  }
}

void check_meaning(const wire::RequestT& request) {
  switch (request.body.type) {
    case wire::RequestBody::Hello:
      return check(*request.body.AsHello());
    case wire::RequestBody::QuerySegments:
      return check(*request.body.AsQuerySegments());
    case wire::RequestBody::UploadSegment:
      return check(*request.body.AsUploadSegment());
    case wire::RequestBody::LoadModule:
      return check(*request.body.AsLoadModule());
    case wire::RequestBody::SetInput:
      return check(*request.body.AsSetInput());
    case wire::RequestBody::Benchmark:
      return check(*request.body.AsBenchmark());
    case wire::RequestBody::TakeLease:
      return check(*request.body.AsTakeLease());
    default:
      return;
  }
}

}  // namespace

Bytes encode_request(std::uint32_t id, const wire::RequestT& request) {
  return encode_flat<wire::Request>(id, request, FrameType::kRequest);
}

Bytes encode_response(std::uint32_t id, const wire::ResponseT& response, FrameType type) {
  return encode_flat<wire::Response>(id, response, type);
}

wire::RequestT decode_request(std::span<const std::uint8_t> payload) {
  wire::RequestT request = decode<wire::Request>(payload);
  check_meaning(request);
  return request;
}

wire::ResponseT decode_response(std::span<const std::uint8_t> payload) {
  wire::ResponseT response = decode<wire::Response>(payload);
  if (const auto* output = response.body.AsOutput(); output && !is_consistent(*output))
    throw Error(ErrorKind::kBug, "an output's bytes do not match its type and shape");
  if (const auto* finished = response.body.AsBenchmarkFinished();
      finished && finished->byte_size > kMaxResultBytes)
    throw Error(ErrorKind::kBug, "a benchmark's result is longer than the protocol allows");
  const auto* queue = response.body.AsLeaseQueue();
  const auto* beside = response.body.AsMeasuredBeside();
  if ((queue && queue->waiting.size() > kMaxLeaseRows) || (beside && beside->others.size() > kMaxLeaseRows))
    throw Error(ErrorKind::kBug, "a list of sessions is longer than the protocol allows");
  return response;
}

Bytes encode_long_result(const wire::ResponseT& result) {
  flatbuffers::FlatBufferBuilder builder(kMaxControlBytes);
  builder.Finish(wire::Response::Pack(builder, &result));
  return Bytes(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
}

wire::ResponseT decode_long_result(std::span<const std::uint8_t> bytes) {
  wire::ResponseT response = decode_response(bytes);
  const auto* finished = response.body.AsBenchmarkFinished();
  if (!finished || finished->byte_size != 0)
    throw Error(ErrorKind::kBug, "the data of a benchmark's result are none");
  return response;
}

std::uint64_t following_bytes(const wire::RequestT& request) {
  if (const auto* upload = request.body.AsUploadSegment()) return upload->size - upload->offset;
  if (const auto* load = request.body.AsLoadModule()) return load->manifest_size;
  if (const auto* input = request.body.AsSetInput()) return input->byte_size;
  return 0;
}

std::uint64_t following_bytes(const wire::ResponseT& response) {
  if (const auto* output = response.body.AsOutput()) return output->byte_size;
  if (const auto* finished = response.body.AsBenchmarkFinished()) return finished->byte_size;
  return 0;
}

wire::ResponseT make_failure(ErrorKind kind, const std::string& message) {
  return make_failure(Error(kind, message));
}

wire::ResponseT make_failure(const Error& error) {
  wire::FailureT failure;
  failure.kind = static_cast<wire::FailureKind>(error.kind());
  failure.message = std::string(error.what()).substr(0, 16384);
  failure.unsupported = error.unsupported();
  return make_response(std::move(failure));
}

Error to_error(const wire::FailureT& failure) {
  const auto kind =
      failure.kind <= wire::FailureKind::MAX ? static_cast<ErrorKind>(failure.kind) : ErrorKind::kBoard;
  return Error(kind, failure.message, failure.unsupported);
}

DigestBytes to_array(const wire::Digest& digest) {
  DigestBytes bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = digest.bytes()->Get(i);
  return bytes;
}

std::unique_ptr<wire::Digest> to_wire(const DigestBytes& digest) {
  return std::make_unique<wire::Digest>(flatbuffers::span<const std::uint8_t, 32>(digest));
}

std::string to_hex(const DigestBytes& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::uint64_t dense_bytes(std::uint8_t bits, std::span<const std::int64_t> shape) {
  const bool padded = bits == 2 || bits == 4 || bits == 6;  // to a byte an element
  if (!padded && bits != 8 && bits != 16 && bits != 32 && bits != 64)
    refuse("an element type of " + std::to_string(bits) + " bits is not supported");
  std::uint64_t bytes = padded ? 1 : bits / 8;
  for (std::int64_t extent : shape) {
    if (extent < 0) refuse("a shape has a negative dimension");
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) || bytes > kMaxModuleBytes)
      refuse("a tensor is larger than 1 TiB");
  }
  return bytes;
}

bool has_fitting_bytes(std::uint8_t code, std::uint8_t bits, std::span<const std::int64_t> shape,
                       std::uint64_t bytes) {
  if (code != kStringCode) return dense_bytes(bits, shape) == bytes;
  return bytes >= dense_bytes(32, shape) && bytes <= kMaxModuleBytes;
}

}  // namespace gantry::rpc
