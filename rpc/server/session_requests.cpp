#include "rpc/server/session_requests.h"

#include <sys/mman.h>

#include <algorithm>

#include "gantry/runtime.h"
#include "rpc/server/shared_memory.h"

namespace gantry::rpc {

asio::awaitable<void> SessionRequests::read_all() {
  while (!session_.life.stopped()) {
    const auto header = co_await session_.client.channel().read_header();
    if (!header) co_return;
    session_.life.touch();
    co_await handle(*header);
  }
}

asio::awaitable<void> SessionRequests::handle(const FrameHeader& header) {
  Bytes frame(kFrameHeaderSize + header.length);
  const FrameHeaderBytes bytes = encode_header(header);
  std::copy(bytes.begin(), bytes.end(), frame.begin());
  co_await session_.client.channel().read_payload(asio::buffer(frame) + kFrameHeaderSize);
  if (header.type == FrameType::kData && discarded_id_ == header.id) co_return;
  if (header.type != FrameType::kRequest)
    throw Error(ErrorKind::kBug, "a frame came that belongs to no request");
  if (header.id == 0) throw Error(ErrorKind::kBug, "a request has the id 0");
  discarded_id_.reset();
  std::optional<wire::ResponseT> failure;
  try {
    co_await handle_request(header.id, decode_request(std::span(frame).subspan(kFrameHeaderSize)),
                            std::move(frame));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug || error.kind() == ErrorKind::kReconnect) throw;
    failure = make_failure(error);
  }
  if (failure) {
    wire::FailureT& told = *failure->body.AsFailure();
    if (told.unsupported) told.message += "; its version is " + std::string(gantry_version());
    discarded_id_ = header.id;
    co_await session_.client.respond(header.id, *failure);
  }
}

asio::awaitable<void> SessionRequests::handle_request(std::uint32_t id, wire::RequestT request, Bytes frame) {
  SessionClient& client = session_.client;
  switch (request.body.type) {
    case wire::RequestBody::Ping:
      co_return co_await client.respond(id, make_response(wire::PongT{}));
    case wire::RequestBody::GetBoardInfo:
      co_return co_await client.respond(
          id, make_response(session_.board.describe(request.body.AsGetBoardInfo()->gpus)));
    case wire::RequestBody::QuerySegments:
      co_return co_await client.respond(
          id, make_response(session_.segments.states_of(*request.body.AsQuerySegments())));
    case wire::RequestBody::GetLeases: {
      const LeaseListing listing = co_await session_.lease.state();
      co_return co_await client.respond(id, make_response(to_wire(listing)));
    }
    case wire::RequestBody::UploadSegment: {
      const Doing doing = session_.share.doing(Activity::kTransfer);
      co_await session_.segments.receive(client.channel(), id, *request.body.AsUploadSegment(),
                                         [this] { session_.life.touch(); });
    }
      co_return co_await client.respond(id, make_response(wire::DoneT{}));
    case wire::RequestBody::Hello:
      throw Error(ErrorKind::kRequest, "this session has begun already: it takes no second hello");
    case wire::RequestBody::LoadModule:
    case wire::RequestBody::UnloadModule:
    case wire::RequestBody::SetInput:
    case wire::RequestBody::Run:
    case wire::RequestBody::GetOutput:
    case wire::RequestBody::Benchmark:
    case wire::RequestBody::TakeLease:
    case wire::RequestBody::JoinLease:
    case wire::RequestBody::ReleaseLease:
      co_return co_await enqueue(id, std::move(request), std::move(frame));
    case wire::RequestBody::NONE:
      break;  // decode_request lets none through
  }
}

asio::awaitable<void> SessionRequests::enqueue(std::uint32_t id, wire::RequestT request, Bytes frame) {
  // Until there is room nothing more is read.
  SessionMemory::Hold hold = co_await session_.memory.reserve(request, frame.size());
  if (session_.life.stopped()) co_return;
  const std::chrono::milliseconds deadline = deadline_of(request, session_.options.deadline);
  SessionWork work{id, std::move(request), std::move(frame), UniqueFd(), deadline, std::move(hold)};
  work.tell_deadline();
  if (const std::uint64_t size = following_bytes(work.request); size > 0) co_await receive_data(work, size);
  co_await session_.queue.add(std::move(work));
}

asio::awaitable<void> SessionRequests::receive_data(SessionWork& work, std::uint64_t size) {
  const Doing doing = session_.share.doing(Activity::kTransfer);
  SharedMemory memory(size);
  std::uint64_t done = 0;
  co_await session_.client.channel().read_data(
      work.id, size,
      [&](std::size_t length) {
        memory.populate(done, length, MADV_POPULATE_WRITE);
        const auto piece = asio::buffer(memory.data() + done, length);
        done += length;
        return piece;
      },
      [&](asio::const_buffer piece) {
        work.memory.arrived(piece.size());
        session_.life.touch();
      });
  work.data = memory.take();
}

}  // namespace gantry::rpc
