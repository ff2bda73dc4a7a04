#include "rpc/server/held_segments.h"

namespace gantry::rpc {

HeldSegments::~HeldSegments() {
  for (const auto& [digest, entry] : entries_) cache_.release(digest);
}

HeldSegments::Entries::iterator HeldSegments::hold(const DigestBytes& digest, std::uint64_t size) {
  const auto [entry, fresh] = entries_.try_emplace(digest);
  if (fresh) {
    entry->second.size = size;
    cache_.hold(digest);
  }
  return entry;
}

void HeldSegments::expect(const DigestBytes& digest, std::uint64_t size) {
  const auto entry = hold(digest, size);
  stop_waiting(entry);
  entry->second.waits = true;
  entry->second.query = query_;
  entry->second.place = waiting_.insert(waiting_.end(), digest);
  waiting_bytes_ += entry->second.size;
  while (!waiting_.empty()) {
    const auto oldest = entries_.find(waiting_.front());
    const bool too_large = waiting_bytes_ > cache_.capacity() / 2 && oldest->second.query != query_;
    if (waiting_.size() <= kMaxSegments && !too_large) break;
    stop_waiting(oldest);
    let_go_if_unused(oldest);
  }
}

void HeldSegments::give_up(const DigestBytes& digest) {
  const auto entry = entries_.find(digest);
  if (entry == entries_.end()) return;
  stop_waiting(entry);
  let_go_if_unused(entry);
}

void HeldSegments::stop_waiting(Entries::iterator entry) {
  if (!entry->second.waits) return;
  entry->second.waits = false;
  waiting_.erase(entry->second.place);
  waiting_bytes_ -= entry->second.size;
}

void HeldSegments::let_go_if_unused(Entries::iterator entry) {
  if (entry->second.waits || entry->second.modules > 0) return;
  cache_.release(entry->first);
  entries_.erase(entry);
}

void HeldSegments::note(const wire::RequestT& request, const wire::ResponseT& response) {
  const auto* load = request.body.AsLoadModule();
  const auto* module = response.body.AsModuleLoaded();
  if (load && module) {
    std::vector<DigestBytes>& digests = modules_[module->handle];
    for (const auto& name : load->segments) {
      digests.push_back(to_array(*name->digest));
      const auto entry = hold(digests.back(), name->size);
      ++entry->second.modules;
      stop_waiting(entry);
    }
  } else if (const auto* gone = request.body.AsUnloadModule(); gone && response.body.AsDone()) {
    if (auto found = modules_.extract(gone->handle)) unload(found.mapped());
  }
}

void HeldSegments::unload(const std::vector<DigestBytes>& digests) {
  for (const DigestBytes& digest : digests) {
    const auto entry = entries_.find(digest);
    --entry->second.modules;
    let_go_if_unused(entry);
  }
}

void HeldSegments::forget_loaded() {
  for (const auto& [handle, digests] : modules_) unload(digests);
  modules_.clear();
}

}  // namespace gantry::rpc
