// What a store of records decides while a model is compiled.
#pragma once

#include <memory>

#include "host/passes/node_decision.h"
#include "host/records/store.h"

namespace gantry::records {

/// For the setting; the store is asked as nodes are met, each work once.
std::shared_ptr<RecordedDecisions> decisions_of(std::shared_ptr<Store> store, Setting setting);

}  // namespace gantry::records
