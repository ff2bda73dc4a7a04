// What a user is told.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "host/support/error.h"

namespace gantry::testing {

/// The message of the user error that `work` ends with; fails where it ends otherwise.
template <typename Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace gantry::testing
