/// What a session and its parent say of leases over the session's control socket: messages of fixed size, so
/// that the parent parses nothing. Texts are copied and not looked into.
#ifndef GANTRY_RPC_SERVER_LEASE_MESSAGES_H
#define GANTRY_RPC_SERVER_LEASE_MESSAGES_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "rpc/protocol/message.h"
#include "rpc/security/key.h"

namespace gantry::rpc {

/// Bytes up to the first zero; what does not fit is cut off.
template <std::size_t kBytes>
struct FixedText {
  std::array<char, kBytes> bytes{};
  FixedText() = default;
  FixedText(const std::string& text) : FixedText(std::string_view(text)) {}
  explicit FixedText(std::string_view text) {
    std::copy_n(text.data(), std::min(text.size(), kBytes), bytes.begin());
  }
  std::string str() const { return {bytes.begin(), std::find(bytes.begin(), bytes.end(), '\0')}; }
};

enum class LeaseAsk : std::uint8_t { kTake, kJoin, kBegin, kEnd, kCancel, kRelease, kState };

/// From a session. kEnd and kRelease have no answer; kState has a LeaseListing; the others have a
/// LeaseAnswer, and kCancel has none where that is under way already.
struct LeaseQuestion {
  LeaseAsk ask = LeaseAsk::kState;
  std::uint8_t priority = 0;
  std::array<std::uint8_t, 6> unused{};
  std::uint64_t token = 0;
  FixedText<kMaxPurpose> purpose;
};

/// First bytes of what the parent says, beside those of admission.h.
inline constexpr char kLeaseAnswer = 'l', kLeaseListing = 'q';

enum class LeaseVerdict : std::uint8_t {
  kGranted,
  kNoSuchLease,  ///< to join
  kNotAllowed,   ///< to be urgent
  kCancelled,
  kHasJoined,  ///< another's: it cannot take one
};
struct LeaseAnswer {
  char kind = kLeaseAnswer;
  LeaseVerdict verdict = LeaseVerdict::kGranted;
  std::array<std::uint8_t, 2> unused{};
  std::uint32_t turn_ms = 0;
  std::uint64_t token = 0;
  std::uint64_t waited_ms = 0;
};

struct LeaseRow {
  std::uint64_t since_ms = 0;
  std::uint8_t priority = 0;
  std::array<std::uint8_t, 7> unused{};
  FixedText<kMaxIdentity> key;
  FixedText<kMaxAddressText> address;
  FixedText<kMaxPurpose> purpose;
};
struct LeaseListing {
  static constexpr std::size_t kMostRows = 16;
  char kind = kLeaseListing;
  bool held = false, measuring = false;
  std::uint8_t rows = 0;       ///< that are filled: the holder, if there is one, and the first ones that wait
  std::uint32_t waiting = 0;   ///< all of them
  std::uint32_t position = 0;  ///< the asking session's among them, from 1 on; 0: it does not wait
  std::uint32_t turn_ms = 0;
  std::int64_t turn_left_ms = 0;
  std::uint64_t sessions = 0;  ///< of the asking session's key
  std::array<LeaseRow, kMostRows> row;
};
// No byte of them is left to what was in memory before.
static_assert(std::has_unique_object_representations_v<LeaseQuestion> &&
              std::has_unique_object_representations_v<LeaseAnswer> &&
              std::has_unique_object_representations_v<LeaseListing>);

}  // namespace gantry::rpc
#endif
