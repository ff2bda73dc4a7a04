#include "rpc/server/key_store.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "rpc/error.h"
#include "rpc/server/rights.h"

namespace gantry::rpc {
namespace fs = std::filesystem;
namespace {

using Entry = ServerKeys::Entry;

/// Names in the line that says what the server is.
constexpr std::size_t kNamesShown = 8;

/// Whether the file is not there or not for us, rather than out of reach for the moment.
bool is_final(int error) {
  constexpr int kFinal[] = {ENOENT, ENOTDIR, ELOOP, EACCES, EPERM, ENAMETOOLONG, ENXIO};
  return std::find(std::begin(kFinal), std::end(kFinal), error) != std::end(kFinal);
}

}  // namespace

/// A file, or a folder that could not be listed.
struct KeyStore::Reading {
  fs::path path;
  KeyFile file;

  bool is_unknown() const { return !file.key && file.system_error != 0 && !is_final(file.system_error); }
  bool concerns(const fs::path& other) const { return other == path || other.parent_path() == path; }
};

std::vector<KeyStore::Reading> KeyStore::read(const std::vector<fs::path>& places) {
  const CapabilityInEffect right(kReadAllFiles);
  std::vector<Reading> readings;
  for (const fs::path& place : places) {
    std::error_code error;
    if (!fs::is_directory(place, error)) {
      readings.push_back({place, try_read_key_file(place)});
      continue;
    }
    std::vector<fs::path> files;
    fs::directory_iterator folder(place, error);
    while (!error && folder != fs::directory_iterator()) {
      if (!folder->path().filename().string().starts_with('.')) files.push_back(folder->path());
      folder.increment(error);
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) readings.push_back({file, try_read_key_file(file)});
    if (!error) continue;
    KeyFile problem;
    problem.problem = "cannot list the keys in " + place.string() + ": " + error.message();
    problem.system_error = error.value();
    readings.push_back({place, std::move(problem)});
  }
  return readings;
}

const Entry* KeyStore::in_use(const PskKey& key) const {
  for (const Entry& entry : keys_->entries())
    if (entry.key.identity == key.identity && entry.key.secret == key.secret) return &entry;
  return nullptr;
}

/// Leaves of the files with one identity that whose key is in use, if there is one.
void KeyStore::refuse_duplicates(std::vector<Reading>& readings) const {
  std::map<std::string, std::vector<Reading*>> by_identity;
  for (Reading& reading : readings)
    if (reading.file.key) by_identity[reading.file.key->identity].push_back(&reading);
  for (auto& [identity, rivals] : by_identity) {
    if (rivals.size() < 2) continue;
    const auto rank = [this](const Reading* reading) {
      const Entry* entry = in_use(*reading->file.key);
      return !entry ? 0 : entry->file == reading->path ? 2 : 1;
    };
    const auto best = std::max_element(rivals.begin(), rivals.end(),
                                       [&](const Reading* a, const Reading* b) { return rank(a) < rank(b); });
    const Reading* kept = rank(*best) > 0 ? *best : nullptr;
    for (Reading* reading : rivals) {
      if (reading == kept) continue;
      const Reading* other = kept ? kept : reading == rivals[0] ? rivals[1] : rivals[0];
      reading->file.problem = "key files " + reading->path.string() + " and " + other->path.string() +
                              " have the same identity '" + identity +
                              "': give each user a key of its own, with 'gantry keygen --identity NAME'";
    }
    for (Reading* reading : rivals)
      if (reading != kept) reading->file.key.reset();
  }
}

std::vector<Entry> KeyStore::entries_of(std::vector<Reading>& readings) {
  std::vector<Entry> entries;
  const auto has = [&](const std::string& identity) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const Entry& entry) { return entry.key.identity == identity; });
  };
  for (Reading& reading : readings) {
    if (!reading.file.key) continue;
    const Entry* known = in_use(*reading.file.key);
    entries.push_back({*reading.file.key, known ? known->serial : ++last_serial_, reading.path});
  }
  for (const Reading& reading : readings) {
    if (!reading.is_unknown()) continue;
    for (const Entry& entry : keys_->entries())
      if (reading.concerns(entry.file) && !has(entry.key.identity)) entries.push_back(entry);
  }
  return entries;
}

KeyStore::KeyStore(std::vector<fs::path> places) : places_(std::move(places)) {
  for (fs::path& place : places_) {
    place = fs::absolute(place).lexically_normal();
    if (!place.has_filename()) place = place.parent_path();  // "keys/": files in it have no slash behind
  }
  std::vector<Reading> readings = read(places_);
  refuse_duplicates(readings);
  for (const Reading& reading : readings)
    if (!reading.file.key) throw Error(ErrorKind::kRequest, reading.file.problem);
  keys_->set(entries_of(readings));
}

std::vector<fs::path> KeyStore::files_of(uid_t user) const {
  const CapabilityInEffect right(kReadAllFiles);
  std::vector<fs::path> files;
  for (const Entry& entry : keys_->entries())
    if (try_read_key_file(entry.file).owner == user) files.push_back(entry.file);
  return files;
}

void KeyStore::report_changes(const std::vector<Entry>& next, Log& log) const {
  const auto is_among = [](const std::vector<Entry>& entries, KeySerial serial) {
    return std::any_of(entries.begin(), entries.end(),
                       [serial](const Entry& entry) { return entry.serial == serial; });
  };
  for (const Entry& entry : keys_->entries())
    if (!is_among(next, entry.serial))
      log.info("key '" + entry.key.identity + "' is revoked: " + entry.file.string() + " is gone or changed");
  for (const Entry& entry : next)
    if (!is_among(keys_->entries(), entry.serial))
      log.info("key '" + entry.key.identity + "' of " + entry.file.string() + " is accepted from now on");
}

void KeyStore::report_problems(const std::vector<Reading>& readings, Log& log) {
  std::map<fs::path, std::string> problems;
  for (const Reading& reading : readings) {
    if (reading.file.key) continue;
    const auto known = reported_.find(reading.path);
    if (known == reported_.end() || known->second != reading.file.problem)
      log.warning((reading.is_unknown() ? "key file not read again: " : "key file left out: ") +
                  reading.file.problem);
    problems[reading.path] = reading.file.problem;
  }
  reported_ = std::move(problems);
}

bool KeyStore::can_be_read_again() {
  const std::vector<Reading> readings = read(places_);
  const auto denied = [](const Reading& reading) {
    return reading.file.system_error == EACCES || reading.file.system_error == EPERM;
  };
  out_of_reach_ = std::any_of(readings.begin(), readings.end(), denied);
  return !out_of_reach_;
}

void KeyStore::refresh(Log& log) {
  if (out_of_reach_) return;
  std::vector<Reading> readings = read(places_);
  refuse_duplicates(readings);
  report_problems(readings, log);
  std::vector<Entry> next = entries_of(readings);
  report_changes(next, log);
  keys_->set(std::move(next));
}

std::string KeyStore::names() const {
  const auto& entries = keys_->entries();
  if (entries.size() == 1) return "key " + entries[0].key.identity;
  std::string text = entries.empty() ? "no keys yet" : std::to_string(entries.size()) + " keys:";
  for (std::size_t i = 0; i < std::min(entries.size(), kNamesShown); ++i)
    text += (i == 0 ? " " : ", ") + entries[i].key.identity;
  if (entries.size() > kNamesShown) text += ", …";
  return text;
}

}  // namespace gantry::rpc
