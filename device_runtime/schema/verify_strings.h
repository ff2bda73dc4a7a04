// What module_generated.h verifies lists of strings with.
#pragma once

#include "flatbuffers/flatbuffers.h"

namespace gantry::module_format {

/// As Verifier::VerifyVectorOfStrings, but a string counts as a table does, against the most that the
/// verifier looks at. A list may be part of many tables, and its strings are looked at again for each.
inline bool verify_strings(flatbuffers::Verifier& verifier,
                           const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* strings) {
  for (flatbuffers::uoffset_t i = 0; strings != nullptr && i < strings->size(); ++i) {
    if (!verifier.VerifyComplexity() || !verifier.VerifyString(strings->Get(i))) return false;
    verifier.EndTable();
  }
  return true;
}

}  // namespace gantry::module_format
