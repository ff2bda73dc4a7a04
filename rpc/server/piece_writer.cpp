#include "rpc/server/piece_writer.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>

namespace gantry::rpc {
namespace {

/// One is filled, one is stored, and one waits so that neither side does.
constexpr std::size_t kPieces = 3;
/// So much is sent to the disk at once.
constexpr std::size_t kWriteback = std::size_t{8} << 20;

}  // namespace

PieceWriter::~PieceWriter() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::span<std::byte> PieceWriter::next(std::size_t size) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !free_.empty() || pieces_ < kPieces; });
  if (free_.empty()) {
    ++pieces_;
    filling_ = Piece();
  } else {
    filling_ = std::move(free_.back());
    free_.pop_back();
  }
  filling_.resize(size);
  return filling_;
}

int PieceWriter::put() {
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    return error.code().value();
  }
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(filling_));
  }
  changed_.notify_all();
  const std::lock_guard lock(mutex_);
  return error_;
}

int PieceWriter::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
  return error_;
}

void PieceWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Piece piece = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    const bool failed = error_ != 0;
    lock.unlock();
    const int error = failed ? 0 : store(piece);
    lock.lock();
    if (error != 0) error_ = error;
    busy_ = false;
    free_.push_back(std::move(piece));
    changed_.notify_all();
  }
}

int PieceWriter::store(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(hash_, bytes.data(), bytes.size());
  unsent_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  if (unsent_ >= kWriteback) {
    // Starts without waiting: the disk works while more arrives, and has little left to do in the end.
    const off_t end = ::lseek(file_, 0, SEEK_CUR), size = static_cast<off_t>(unsent_);
    (void)::sync_file_range(file_, end - size, size, SYNC_FILE_RANGE_WRITE);
    unsent_ = 0;
  }
  return 0;
}

}  // namespace gantry::rpc
