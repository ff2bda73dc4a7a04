#include "rpc/server/measured_beside.h"

#include <algorithm>
#include <memory>

namespace gantry::rpc {
namespace {

std::unique_ptr<wire::OtherWorkT> to_wire(const OtherActivity& other) {
  auto row = std::make_unique<wire::OtherWorkT>();
  const auto amount = [&](Activity kind) { return other.amounts[static_cast<std::size_t>(kind)]; };
  row->key = other.key;
  row->address = other.address;
  row->runs = amount(Activity::kRun).count;
  row->run_ms = amount(Activity::kRun).ms;
  row->loads = amount(Activity::kLoad).count;
  row->load_ms = amount(Activity::kLoad).ms;
  row->transfers = amount(Activity::kTransfer).count;
  row->transfer_ms = amount(Activity::kTransfer).ms;
  return row;
}

}  // namespace

void MeasuredBeside::begin(std::chrono::milliseconds waited) {
  waited_ = waited;
  if (activity_) mark_ = activity_->mark();
}

std::optional<wire::MeasuredBesideT> MeasuredBeside::told() const {
  constexpr std::chrono::milliseconds kWorthTelling{1};
  wire::MeasuredBesideT beside;
  beside.waited_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(waited_.count(), 0));
  if (mark_) {
    for (const OtherActivity& other : activity_->since(*mark_, slot_))
      if (beside.others.size() < kMaxLeaseRows) beside.others.push_back(to_wire(other));
  }
  if (beside.others.empty() && waited_ < kWorthTelling) return std::nullopt;
  return beside;
}

}  // namespace gantry::rpc
