// How peers that have not authenticated share the server's places.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "rpc/server/fair_places.h"
#include "rpc/server/report_budget.h"
#include "rpc/server/waiting_peers.h"

namespace gantry::rpc {
namespace {

using std::chrono::seconds;
using Clock = HandshakePlaces::Clock;
using ::testing::Eq;
using ::testing::Optional;

const Clock::time_point kStart = Clock::now();

SourceAddress source(const std::string& text) {
  sockaddr_storage storage{};
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    std::memcpy(&storage, &v4, sizeof v4);
  } else {
    EXPECT_EQ(::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr), 1) << text;
    v6.sin6_family = AF_INET6;
    std::memcpy(&storage, &v6, sizeof v6);
  }
  return source_of(storage);
}

TEST(SourceAddress, Ipv6CountsByItsNetworkAndIpv4ByItself) {
  EXPECT_EQ(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::9"));
  EXPECT_NE(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
  EXPECT_NE(source("192.0.2.1"), source("192.0.2.2"));
  EXPECT_EQ(source("::ffff:192.0.2.1"), source("192.0.2.1"));
}

/// Four places, at most three of one address, turns of ten seconds.
class Handshakes : public ::testing::Test {
 protected:
  /// The process that makes room, as far as one more from there may start; it is then entered as `process`.
  std::optional<pid_t> enter(const std::string& address, pid_t process, seconds at = seconds(0)) {
    const auto lost = places_.make_room(source(address), kStart + at);
    if (lost) places_.enter(source(address), process, kStart + at);
    return lost;
  }
  HandshakePlaces places_{{4, 3}, seconds(10)};
};

TEST_F(Handshakes, AnAddressAloneHasItsShare) {
  for (pid_t process = 1; process <= 3; ++process) EXPECT_THAT(enter("192.0.2.1", process), Optional(0));
  EXPECT_EQ(enter("192.0.2.1", 4), std::nullopt);
  EXPECT_THAT(enter("192.0.2.2", 5), Optional(0)) << "the rest is for others";
}

TEST_F(Handshakes, TheAddressWithTheMostLosesItsOldest) {
  for (pid_t process = 1; process <= 3; ++process) enter("192.0.2.1", process);
  enter("192.0.2.2", 4);
  EXPECT_THAT(enter("192.0.2.3", 5), Optional(1));
  EXPECT_EQ(places_.held_by(source("192.0.2.1")), 2u);
  EXPECT_THAT(enter("192.0.2.4", 6), Optional(2));
}

TEST_F(Handshakes, EqualsWaitForTheEndOfATurn) {
  for (pid_t process = 1; process <= 2; ++process) enter("192.0.2.1", process);
  for (pid_t process = 3; process <= 4; ++process) enter("192.0.2.2", process, seconds(1));
  EXPECT_EQ(enter("192.0.2.1", 5, seconds(2)), std::nullopt);
  EXPECT_EQ(enter("192.0.2.2", 5, seconds(2)), std::nullopt);
  EXPECT_THAT(places_.next_turn(kStart + seconds(2)), Optional(Eq(kStart + seconds(10))));
  EXPECT_THAT(enter("192.0.2.2", 5, seconds(10)), Optional(1));
  EXPECT_THAT(places_.next_turn(kStart + seconds(10)), Optional(Eq(kStart + seconds(11))));
}

TEST_F(Handshakes, AFailedOneKeepsItsPlaceForATurnAndAnAuthenticatedOneDoesNot) {
  for (pid_t process = 1; process <= 3; ++process) enter("192.0.2.1", process);
  for (pid_t process = 1; process <= 3; ++process) places_.ended(process);
  places_.free_unused(kStart + seconds(9));
  EXPECT_EQ(enter("192.0.2.1", 4, seconds(9)), std::nullopt);
  places_.free_unused(kStart + seconds(10));
  EXPECT_THAT(enter("192.0.2.1", 4, seconds(10)), Optional(0));
  for (pid_t process = 5; process < 50; ++process) {
    EXPECT_THAT(enter("192.0.2.1", process, seconds(10)), Optional(0));
    places_.authenticated(process);
  }
}

WaitingPeer peer(const std::string& address, bool has_spoken = true) {
  return {UniqueFd(), source(address), kStart + seconds(5), Log(LogLevel::kError, address), has_spoken};
}

TEST(WaitingPeers, AnAddressLosesItsOwnOldestBeyondItsShare) {
  WaitingPeers waiting({8, 2});
  for (const char* address : {"192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.1"}) waiting.add(peer(address));
  ASSERT_EQ(waiting.peers().size(), 3u);
  EXPECT_EQ(waiting.peers().front().source, source("192.0.2.2"));
}

TEST(WaitingPeers, AFullRoomTakesFromWhoHasTheMost) {
  WaitingPeers waiting({4, 3});
  for (const char* address : {"192.0.2.2", "192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.3"})
    waiting.add(peer(address));
  ASSERT_EQ(waiting.peers().size(), 4u);
  EXPECT_EQ(waiting.peers()[0].source, source("192.0.2.2"));
  EXPECT_EQ(waiting.peers()[3].source, source("192.0.2.3"));
}

TEST(WaitingPeers, WhoHoldsTheFewestPlacesComesFirst) {
  HandshakePlaces places({8, 4}, seconds(10));
  places.enter(source("192.0.2.1"), 7, kStart);
  WaitingPeers waiting({16, 16});
  waiting.add(peer("192.0.2.9", false));
  for (const char* address : {"192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"}) waiting.add(peer(address));
  std::vector<SourceAddress> order;
  pid_t lost = 0;
  for (pid_t process = 10; const auto next = waiting.next(places, kStart, lost); ++process) {
    EXPECT_EQ(lost, 0);
    places.enter(next->source, process, kStart);
    order.push_back(next->source);
  }
  EXPECT_THAT(order, ::testing::ElementsAre(source("192.0.2.2"), source("192.0.2.3"), source("192.0.2.1"),
                                            source("192.0.2.1")));
  EXPECT_EQ(waiting.peers().size(), 1u) << "who has said nothing has no turn";
}

TEST(ReportBudget, LetsABurstThroughAndThenARate) {
  ReportBudget budget(3, 1);
  const auto now = Clock::now();
  int reported = 0;
  for (int i = 0; i < 10; ++i) reported += budget.take(now) ? 1 : 0;
  EXPECT_EQ(reported, 3);
  EXPECT_TRUE(budget.take(now + seconds(1)));
  EXPECT_FALSE(budget.take(now + seconds(1)));
  EXPECT_EQ(budget.take_left_out(), 8u);
  EXPECT_EQ(budget.take_left_out(), 0u);
}

}  // namespace
}  // namespace gantry::rpc
