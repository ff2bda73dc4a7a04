// Statements on tile registers, which the target's own instructions are written for.
#pragma once

#include <string>

#include "host/codegen/cpu_codegen.h"
#include "host/codegen/expressions.h"
#include "host/codegen/target_emitter.h"
#include "host/loops/stmt.h"
#include "host/machine/target.h"

namespace gantry {

class TileStatements {
 public:
  /// `kernel`: the name, for errors.
  TileStatements(TargetEmitter& emitter, Expressions& expressions, const Target& target,
                 const std::string& kernel)
      : emitter_(emitter), expressions_(expressions), target_(target), kernel_(kernel) {}

  /// An internal error where the target has not the unit.
  void emit(const TileNode& node);

 private:
  TargetEmitter& emitter_;
  Expressions& expressions_;
  const Target& target_;
  const std::string& kernel_;
  EmitTile emit_ = nullptr;  ///< for what tile registers were configured for
};

}  // namespace gantry
