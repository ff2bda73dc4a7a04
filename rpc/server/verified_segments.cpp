#include "rpc/server/verified_segments.h"

#include <openssl/evp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace gantry::rpc {

VerifiedSegments::VerifiedSegments() {
  void* memory = ::mmap(nullptr, sizeof(Record) * kRecords, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error(ErrorKind::kBoard, "the board has no memory for the server");
  records_ = static_cast<Record*>(memory);  // of zeros, which are no mark
}

VerifiedSegments::~VerifiedSegments() {
  ::munmap(records_, sizeof(Record) * kRecords);
}

VerifiedSegments::Mark VerifiedSegments::mark_of(const DigestBytes& digest, const struct stat& state) {
  const std::array<std::int64_t, 7> numbers = {static_cast<std::int64_t>(state.st_dev),
                                               static_cast<std::int64_t>(state.st_ino),
                                               static_cast<std::int64_t>(state.st_size),
                                               state.st_mtim.tv_sec,
                                               state.st_mtim.tv_nsec,
                                               state.st_ctim.tv_sec,
                                               state.st_ctim.tv_nsec};
  std::array<unsigned char, sizeof digest + sizeof numbers> text{};
  std::memcpy(text.data(), digest.data(), sizeof digest);
  std::memcpy(text.data() + sizeof digest, numbers.data(), sizeof numbers);
  Mark mark{};
  if (EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(mark.data()), nullptr,
                 EVP_sha256(), nullptr) != 1)
    throw std::bad_alloc();
  return mark;
}

bool VerifiedSegments::contains(const DigestBytes& digest, const struct stat& state) const {
  const Mark mark = mark_of(digest, state);
  const Record* places = places_of(mark);
  return std::any_of(places, places + kPlaces, [&](const Record& record) {
    return std::equal(mark.begin(), mark.end(), record.words.begin());
  });
}

void VerifiedSegments::add(const DigestBytes& digest, const struct stat& state) {
  const Mark mark = mark_of(digest, state);
  Record* places = places_of(mark);
  Record* place = std::find_if(places, places + kPlaces, [](const Record& record) {
    return record.words[0] == 0 && record.words[1] == 0;
  });
  if (place == places + kPlaces) place = places + mark[1] % kPlaces;
  for (std::size_t i = 0; i < mark.size(); ++i) place->words[i] = mark[i];
}

void VerifiedSegments::keep_from_children() const {
  (void)::madvise(records_, sizeof(Record) * kRecords, MADV_DONTFORK);
}

}  // namespace gantry::rpc
