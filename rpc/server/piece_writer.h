/// Hashes and stores what arrives, on a thread of its own, while the next bytes are received and decrypted.
#ifndef GANTRY_RPC_SERVER_PIECE_WRITER_H
#define GANTRY_RPC_SERVER_PIECE_WRITER_H

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

struct evp_md_ctx_st;

namespace gantry::rpc {

class PieceWriter {
 public:
  /// Appends to `file` and to `hash`; both must outlive the object and be left alone until drain().
  PieceWriter(int file, evp_md_ctx_st* hash) : file_(file), hash_(hash) {}
  /// Stores what was put, then ends the thread.
  ~PieceWriter();
  PieceWriter(const PieceWriter&) = delete;
  PieceWriter& operator=(const PieceWriter&) = delete;

  /// Where the next `size` bytes go. Waits while too many pieces are on their way.
  std::span<std::byte> next(std::size_t size);
  /// Hands over the piece that next() returned. An errno of an earlier piece that could not be stored, or 0.
  int put();
  /// Waits until everything is stored; an errno or 0, as put().
  int drain();

 private:
  using Piece = std::vector<std::byte>;
  void work();
  int store(std::span<const std::byte> bytes);

  int file_;
  evp_md_ctx_st* hash_;
  std::size_t unsent_ = 0;  // written, but not on its way to the disk yet; of the thread
  Piece filling_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Piece> waiting_;
  std::vector<Piece> free_;
  std::size_t pieces_ = 0;  // made so far, the one that is being filled included
  bool busy_ = false;
  bool ending_ = false;
  int error_ = 0;
  std::thread thread_;  // started by the first piece
};

}  // namespace gantry::rpc
#endif
