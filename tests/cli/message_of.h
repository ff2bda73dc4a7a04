// Tests of what a user's error says.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "host/support/error.h"

namespace gantry::cli::testing {

/// The message of the user error that `call` throws; "no error" where it throws none.
template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "no error";
}

}  // namespace gantry::cli::testing
