// In the place of sqlite_database.cpp where SQLite is not there.
#include "host/records/database.h"
#include "host/support/error.h"

namespace gantry::records {

std::unique_ptr<Database> open_sqlite(const std::string& /*path*/, const StoreOptions& /*options*/,
                                      const std::string& place) {
  user_error(
      "{}: this gantry was built without SQLite, and so without records; use one that was built for this "
      "system",
      place);
}

}  // namespace gantry::records
