// A store whose file, where it is not there yet, is made with the first records.
#pragma once

#include <memory>
#include <string>

#include "host/records/store.h"

namespace gantry::records {

/// As open_store() with StoreOptions::create; but a file that is not there is made by the first add(), of
/// nothing too. Until then there is nothing in the store, unless another program makes it. That a store can
/// be made there is seen at once, by one that is made beside it and removed: errors are those of making it.
std::unique_ptr<Store> open_late_store(const std::string& place, StoreOptions options = {});

}  // namespace gantry::records
