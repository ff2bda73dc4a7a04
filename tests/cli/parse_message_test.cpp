#include "host/cli/parse_message.h"

#include <gtest/gtest.h>

namespace gantry::cli {
namespace {

/// What is said of a command line of `--count N`, and of `--kind a|b` or `--name`.
std::string message_of(const std::string& line) {
  CLI::App app;
  int count = 0;
  std::string kind, name;
  app.add_option("--count", count)->type_name("N");
  app.add_option("--kind", kind)->type_name("a|b")->check(CLI::IsMember({"a", "b"}));
  app.add_option("--name", name)->excludes(app.get_option("--kind"));
  try {
    app.parse(line, false);
  } catch (const CLI::ParseError& error) {
    return parse_message(app, error);
  }
  return "none";
}

TEST(ParseMessage, SaysWhatIsWrongInPlainWords) {
  EXPECT_EQ(message_of("--count 3 --kind b"), "none");
  EXPECT_EQ(message_of("--count 3 --name x"), "none");
  EXPECT_EQ(message_of("--count 3 --count 4"), "--count is given 2 times; it takes one value");
  EXPECT_EQ(message_of("--kind b --name x"), "--kind and --name exclude each other: give one of them");
  EXPECT_EQ(message_of("--count x"), "--count: 'x' is not a number that it takes");
  EXPECT_EQ(message_of("--count"), "--count needs a value: N");
  EXPECT_EQ(message_of("--name"), "--name needs a value");
  EXPECT_EQ(message_of("--kind c"), "--kind: 'c' is none of a, b");
  EXPECT_EQ(message_of("--cuont=3 rest"), "'--cuont' is no such option");
  EXPECT_EQ(message_of("rest"), "'rest' belongs to no option");
}

}  // namespace
}  // namespace gantry::cli
