/// What a session's data may use of the board's memory.
#ifndef GANTRY_RPC_SERVER_SESSION_MEMORY_H
#define GANTRY_RPC_SERVER_SESSION_MEMORY_H

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "rpc/protocol/message.h"
#include "rpc/protocol/watchdog.h"
#include "rpc/server/board_memory.h"

namespace gantry::rpc {

/// Where a session counts what it holds; no page: it is alone on the machine.
struct MemoryShare {
  BoardMemory* board = nullptr;
  int slot = 0;
};

/// Two budgets of `capacity` bytes each. One is for data on their way: requests that are received, wait or
/// are executed, and the answer that is sent. Who wants more waits until there is room, so that the session
/// stops reading; one request alone always gets in. The other is for what the executor keeps mapped: inputs,
/// and modules that were sent whole; more than it allows is an error. Together with the executor's own limit
/// (which counts what it has mapped) a session so uses at most twice its `--session-memory`, on a GPU three
/// times. What has arrived is counted in the server's budget as well. One thread.
class SessionMemory {
 public:
  /// Bytes of a request, from its arrival until it is answered or longer, if its data is kept.
  class Hold {
   public:
    Hold() = default;
    Hold(SessionMemory* memory, std::uint64_t reserved) : memory_(memory), reserved_(reserved) {}
    ~Hold() { release(); }
    Hold(Hold&& other) noexcept { swap(other); }
    Hold& operator=(Hold&& other) noexcept {
      Hold taken(std::move(other));
      swap(taken);
      return *this;
    }
    /// So many bytes more are in memory now. Throws Error(kRetry) if all sessions together have too much.
    void arrived(std::uint64_t bytes);
    std::uint64_t reserved() const { return reserved_; }

   private:
    friend class SessionMemory;
    void swap(Hold& other) noexcept {
      std::swap(memory_, other.memory_);
      std::swap(reserved_, other.reserved_);
      std::swap(arrived_, other.arrived_);
    }
    void release() noexcept;
    SessionMemory* memory_ = nullptr;
    std::uint64_t reserved_ = 0;  // on their way
    std::uint64_t arrived_ = 0;   // counted in the server's budget
  };

  SessionMemory(const asio::any_io_executor& executor, std::uint64_t capacity, MemoryShare share);

  /// Room for a request of so many bytes with the data that follows it and, of GetOutput and Benchmark, for
  /// its answer. Waits for it. Throws Error(kBoard) for data that is larger than the capacity, Error(kRetry)
  /// for data that is larger than what the board has left.
  asio::awaitable<Hold> reserve(const wire::RequestT& request, std::uint64_t frame_bytes);
  /// Throws Error(kBoard) if the executor would have to keep more than it may.
  void check_kept(const wire::RequestT& request) const;
  /// Takes note of what an answered request left in the executor; takes `hold` if its data is kept there.
  void note(const wire::RequestT& request, const wire::ResponseT& response, Hold& hold);
  /// The executor has ended.
  void forget();
  /// Lets everyone who waits go on, with or without room.
  void close();
  std::uint64_t on_their_way() const { return on_their_way_; }

 private:
  /// A module (-1) or input of a handle.
  using Kept = std::pair<std::uint32_t, std::int32_t>;
  std::uint64_t kept_bytes() const;
  std::uint64_t answer_bytes(const wire::RequestT& request) const;

  Signal changed_;
  std::uint64_t capacity_;
  MemoryShare share_;
  std::uint64_t on_their_way_ = 0;
  bool closed_ = false;
  std::map<Kept, Hold> kept_;
  std::map<std::uint32_t, std::vector<std::uint64_t>> outputs_;  // bytes of each loaded module's
};

}  // namespace gantry::rpc
#endif
