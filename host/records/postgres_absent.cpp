// In the place of postgres_database.cpp where libpq is not there.
#include "host/records/database.h"
#include "host/support/error.h"

namespace gantry::records {

std::unique_ptr<Database> open_postgres(const std::string& /*url*/, const StoreOptions& /*options*/) {
  user_error(
      "postgresql://…: this gantry was built without libpq, and so without PostgreSQL; records in a file "
      "work, or "
      "build it where libpq-dev is installed");
}

}  // namespace gantry::records
