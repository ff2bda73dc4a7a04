// URLs of databases.
#pragma once

#include <string>

namespace gantry::records {

/// The URL as messages and files may have it: without the user's password, and with "…" for the values of
/// parameters that are secret, however their names and values are percent-encoded. What stands in front of
/// "://" stays, and so does a text without one.
std::string without_password(const std::string& url);

}  // namespace gantry::records
