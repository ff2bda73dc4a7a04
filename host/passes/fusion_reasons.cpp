#include "host/passes/fusion_reasons.h"

#include <fmt/format.h>

#include <array>

#include "host/ops/op.h"

namespace gantry {
namespace {

/// 0 where it is not known.
double ratio(const Dim& of, const Dim& to) {
  const auto dividend = of.constant(), divisor = to.constant();
  return dividend && divisor && *divisor > 0 ? double(*dividend) / double(*divisor) : 0;
}

// How often a kernel of `reader` would compute each element of the value.
double times_read(FusionRule rule, const Node& maker, const Node& reader) {
  const Dim elements = element_count(maker.result()->type.shape);
  if (rule == FusionRule::kBroadcast) return ratio(element_count(reader.result()->type.shape), elements);
  const auto& flops = op_def(reader).flops;
  if (!flops) return 0;
  if (rule == FusionRule::kWindowsOverlap) return ratio(flops(reader), elements);
  if (rule == FusionRule::kReadAgainAndAgain) return ratio(flops(reader), elements * 2);
  return 0;
}

/// "broadcasting arithmetic", …
std::string_view kind_of(const OpDef& op) {
  switch (op.fusion) {
    case FusionClass::kElementwise:
      return "elementwise arithmetic";
    case FusionClass::kBroadcast:
      return "broadcasting arithmetic";
    case FusionClass::kInjective:
      return "an index map";
    case FusionClass::kReduction:
      return "a reduction";
    case FusionClass::kOutElementwiseFusable:
      return "a product or normalisation";
    case FusionClass::kOpaque:
      break;
  }
  return "opaque";
}

/// "9 times", "about 1.3 times", "again and again".
std::string times_text(double times) {
  if (times <= 0) return "again and again";
  const auto whole = static_cast<int64_t>(times + 0.5);
  const double off = times - static_cast<double>(whole);
  if (times >= 10 || (off < 0.05 && off > -0.05)) return fmt::format("{} times", whole);
  return fmt::format("{:.1f} times", times);
}

std::string member_text(const FusionReason& reason, const OpDef& op) {
  const std::string other = reason.other ? reason.other->name : "";
  switch (reason.rule) {
    case FusionRule::kAnchor:
      return fmt::format("the anchor, {}: arithmetic may follow it", kind_of(op));
    case FusionRule::kSink:
      return fmt::format("{}: the kernel's last op, which others may be computed in", kind_of(op));
    case FusionRule::kByItself:
      return fmt::format("a kernel of its own: {}",
                         op.fusion == FusionClass::kOpaque ? "opaque" : "nothing joins such an op");
    case FusionRule::kFollowsAnchor:
      return fmt::format("{} after the anchor {}, of its shape", kind_of(op), other);
    case FusionRule::kReadIntoTiles:
      return fmt::format("index map read into the tiles of {}", other);
    case FusionRule::kViewBeforeTiles:
      return fmt::format("view between an index map and the tiles of {}", other);
    case FusionRule::kCopiedByReader:
      return fmt::format("{}, done while {} copies its data", kind_of(op), other);
    case FusionRule::kOperandOfFollower:
      return fmt::format("{} on another operand of {}, which follows the anchor", kind_of(op), other);
    case FusionRule::kIntoArithmetic:
      return fmt::format("computed where {} reads it, an element for an element", other);
    case FusionRule::kIntoIndexMap:
      return fmt::format("computed where {} reads it, each element about once", other);
    case FusionRule::kIntoChoice:
      return fmt::format("a step of arithmetic inside {}, which picks among its inputs", other);
    default:
      return fmt::format("computed as {} reduces it", other);
  }
}

std::string value_text(const FusionReason& reason, const OpDef& op) {
  const std::string other = reason.other ? reason.other->name : "";
  switch (reason.rule) {
    case FusionRule::kDisabled:
      return "fusion is off: every op is a kernel of its own";
    case FusionRule::kKeptApart:
      return fmt::format("a decision keeps {} apart", other);
    case FusionRule::kReturned:
      return "the value is returned as an output";
    case FusionRule::kView:
      return fmt::format("{} is a view: its bytes are there already", op.name);
    case FusionRule::kOpaque:
      return fmt::format("{} is opaque", op.name);
    case FusionRule::kSeveralResults:
      return fmt::format("{} has several results", op.name);
    case FusionRule::kHasBodies:
      return fmt::format("{} has functions of its own", op.name);
    case FusionRule::kTooLarge:
      return "the kernel would have too many ops";
    case FusionRule::kWrittenOutTooOften:
      return "the kernel would write its ops out too often";
    case FusionRule::kReadBySeveral:
      return "the value is read by several kernels";
    case FusionRule::kReadersStayApart:
      return fmt::format("what reads the value does not come together in one op: {} stays outside", other);
    default:
      return fmt::format("{}, which reads the value too, does not take it", other);
  }
}

std::string reader_text(const FusionReason& reason, const OpDef& op) {
  const std::string other = reason.other ? reason.other->name : "";
  switch (reason.rule) {
    case FusionRule::kReaderIsView:
      return fmt::format("{} reads it, a view, which is no part of a kernel", other);
    case FusionRule::kReaderIsOpaque:
      return fmt::format("{} is opaque", other);
    case FusionRule::kReaderHasResults:
      return fmt::format("{} has several results", other);
    case FusionRule::kReaderHasBodies:
      return fmt::format("{} has functions of its own", other);
    case FusionRule::kReaderIsAnchor:
      return fmt::format("{} starts a kernel of its own: {} after an anchor", other,
                         reason.other ? kind_of(*reason.other) : "");
    case FusionRule::kReaderMovesElements:
      return fmt::format("{} moves elements: only arithmetic follows an anchor", other);
    case FusionRule::kReaderIsTaken:
      return fmt::format("what reads it follows a later anchor, {}", other);
    case FusionRule::kReaderHasOtherShape:
      return fmt::format("the reader's result has another shape than the anchor {}", other);
    case FusionRule::kReadAgainAndAgain:
      return reason.times > 1 ? fmt::format("nothing joins what {} reads: it takes each value {}", other,
                                            times_text(reason.times))
                              : fmt::format("nothing joins what {} reads", other);
    case FusionRule::kBroadcast:
      return fmt::format("{} has more elements: it would compute each value {}", other,
                         times_text(reason.times));
    case FusionRule::kWindowsOverlap:
      return fmt::format("{} reduces windows: it would compute each value {}", other,
                         times_text(reason.times));
    case FusionRule::kMovesElements:
      return fmt::format("{} moves elements: only arithmetic joins an operand of {}, which follows an anchor",
                         op.name, other);
    case FusionRule::kReaderIsOperand:
      return fmt::format("{} is what an anchor copies: only what it is copied through joins it", other);
    case FusionRule::kCompletesIndexMap:
      return "it would leave an index map alone, whose kernel it can be part of";
    case FusionRule::kReaderChooses:
      return fmt::format("{} picks among its inputs: only a step of elementwise arithmetic goes inside",
                         other);
    default:
      return fmt::format("{} is a step inside an op that picks among its inputs: nothing more goes inside",
                         other);
  }
}

constexpr std::array kNames{"anchor",
                            "sink",
                            "by_itself",
                            "follows_anchor",
                            "read_into_tiles",
                            "view_before_tiles",
                            "copied_by_reader",
                            "operand_of_follower",
                            "into_arithmetic",
                            "into_index_map",
                            "into_choice",
                            "into_reduction",
                            "disabled",
                            "kept_apart",
                            "returned",
                            "view",
                            "opaque",
                            "several_results",
                            "has_bodies",
                            "too_large",
                            "written_out_too_often",
                            "read_by_several",
                            "readers_stay_apart",
                            "other_reader",
                            "reader_is_view",
                            "reader_is_opaque",
                            "reader_has_results",
                            "reader_has_bodies",
                            "reader_is_anchor",
                            "reader_moves_elements",
                            "reader_is_taken",
                            "reader_has_other_shape",
                            "read_again_and_again",
                            "broadcast",
                            "windows_overlap",
                            "moves_elements",
                            "reader_is_operand",
                            "completes_index_map",
                            "reader_chooses",
                            "reader_is_inside_choice"};
static_assert(kNames.size() == static_cast<size_t>(FusionRule::kReaderIsInsideChoice) + 1);

}  // namespace

void FusionRecord::put_member(const Node& node, FusionRule rule, const Node* other) {
  members[&node] = {rule, other == nullptr ? nullptr : &op_def(*other), 0};
}

void FusionRecord::put_apart(const Node& maker, const Node& reader, FusionRule rule, const Node* other) {
  const auto [entry, is_new] = apart.try_emplace({&maker, &reader});
  if (is_new) entry->second = {rule, &op_def(other ? *other : reader), times_read(rule, maker, reader)};
}

std::string_view name_of(FusionRule rule) {
  return kNames[static_cast<size_t>(rule)];
}

std::string to_string(const FusionReason& reason, const OpDef& op) {
  if (reason.rule <= FusionRule::kIntoReduction) return member_text(reason, op);
  if (reason.rule <= FusionRule::kOtherReader) return value_text(reason, op);
  return reader_text(reason, op);
}

}  // namespace gantry
