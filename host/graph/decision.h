// How a node is computed, as data: a form and the values of its knobs.
//
//   {form=winograd4, block=32}
//
// A decision is made by alter_layout for ops that have several forms (host/forms), stays on the
// node, and is printed and parsed with it. One that is there before (from a program's text, or from
// --decisions) is applied as it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gantry {

struct Decision {
  std::string form;  ///< letters, digits and _; "plain": as the op's own definition says
  /// Named whole numbers, in the order in which the form lists them; those at their default are left out.
  std::vector<std::pair<std::string, int64_t>> knobs;
  /// Where a user has written it, for messages: "m.gir:7"; empty: nowhere. No part of what is decided.
  std::string place = {};

  int64_t knob(std::string_view name, int64_t otherwise = 0) const;
  /// Adds a knob, unless it has its default.
  void set(std::string name, int64_t value, int64_t otherwise = 0);
  bool operator==(const Decision& other) const { return form == other.form && knobs == other.knobs; }
};

/// "{form=direct, block=32}".
std::string to_string(const Decision& decision);
/// Reads what to_string() writes; blanks do not matter. User errors say what is expected.
Decision parse_decision(std::string_view text);

}  // namespace gantry
