// Why nodes share a kernel and why they do not, as data: what grouping puts down while it decides.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

struct OpDef;

/// A rule of host/passes/fusion_groups.cpp. "reader": the node that reads the value in question.
enum class FusionRule : uint8_t {
  // What makes a node a member of its kernel.
  kAnchor,             ///< the kernel is for it; others may follow
  kSink,               ///< the kernel's last op, which opened it: what feeds it may join
  kByItself,           ///< nothing joins such an op
  kFollowsAnchor,      ///< arithmetic of the anchor's shape behind it
  kReadIntoTiles,      ///< an index map of what the reader copies into tiles
  kViewBeforeTiles,    ///< a view between such a map and the reader
  kCopiedByReader,     ///< arithmetic of what the reader copies before it computes
  kOperandOfFollower,  ///< arithmetic on another operand of what follows the anchor
  kIntoArithmetic,     ///< computed where arithmetic reads it, an element for an element
  kIntoIndexMap,       ///< computed where an index map reads it, each element about once
  kIntoChoice,         ///< a step of arithmetic inside an op that picks among its inputs
  kIntoReduction,      ///< computed as it is reduced

  // What keeps the node that makes a value apart from its reader.
  kDisabled,             ///< every node is a kernel of its own
  kKeptApart,            ///< a decision says so
  kReturned,             ///< an output of the function
  kView,                 ///< of a view: its bytes are there already
  kOpaque,               ///< of class opaque
  kSeveralResults,       ///< the node has several results
  kHasBodies,            ///< the node has functions of its own
  kTooLarge,             ///< the kernel would have too many members
  kWrittenOutTooOften,   ///< the kernel would write its members out too often
  kReadBySeveral,        ///< readers in several kernels
  kReadersStayApart,     ///< its readers do not come together: `other` stays outside
  kOtherReader,          ///< `other`, which reads it too, does not take it
  kReaderIsView,         ///< a view reads it, which is no part of a kernel
  kReaderIsOpaque,       ///< of class opaque
  kReaderHasResults,     ///< the reader has several results
  kReaderHasBodies,      ///< the reader has functions of its own
  kReaderIsAnchor,       ///< the reader opens a kernel of its own, and no anchor follows another one
  kReaderMovesElements,  ///< of class injective: only arithmetic follows an anchor
  kReaderIsTaken,        ///< the reader follows another anchor, `other`
  kReaderHasOtherShape,  ///< than the anchor, `other`
  kReadAgainAndAgain,    ///< by an anchor: each value goes into `times` products
  kBroadcast,            ///< the reader has more elements: each would be computed `times` times
  kWindowsOverlap,       ///< the reader reduces windows: each would be computed `times` times
  kMovesElements,        ///< of class injective: only arithmetic joins the operands of what follows an anchor
  kReaderIsOperand,      ///< the reader is what an anchor copies: only what it is copied through joins it
  kCompletesIndexMap,    ///< of a copied operand: it leaves no index map in front alone
  kReaderChooses,        ///< among its inputs: only a step of elementwise arithmetic goes inside
  kReaderIsInsideChoice,  ///< the reader is such a step: nothing goes inside it
};
/// "follows_anchor": for machines.
std::string_view name_of(FusionRule rule);

struct FusionReason {
  FusionRule rule{};
  const OpDef* other = nullptr;  ///< the anchor or the reader; see the rule
  double times = 0;              ///< 0: not known
};
/// For people: "broadcasting arithmetic after the anchor nn.conv". `op`: of the node that it is said of; of
/// two kernels, of the one that makes the value.
std::string to_string(const FusionReason& reason, const OpDef& op);

/// What grouping decided, of the nodes that it grouped.
struct FusionRecord {
  std::map<const Node*, FusionReason> members;  ///< of every node
  /// Of a node and one of those that read it, in different groups.
  std::map<std::pair<const Node*, const Node*>, FusionReason> apart;

  /// `other`: whom the rule is about, if anybody.
  void put_member(const Node& node, FusionRule rule, const Node* other = nullptr);
  /// The first rule to refuse an edge is the one that decides. `other`: whom it is about; null: the reader.
  void put_apart(const Node& maker, const Node& reader, FusionRule rule, const Node* other = nullptr);
};

}  // namespace gantry
