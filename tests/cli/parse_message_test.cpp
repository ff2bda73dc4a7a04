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

/// What stands where a value should, of `gantry prune` with options of both.
std::string misplaced(const std::vector<std::string>& arguments) {
  CLI::App app;
  app.fallthrough();
  std::string colour, machine, output;
  double number = 0;
  bool dry = false, verbose = false;
  app.add_option("--color", colour);
  app.add_flag("-v,--verbose", verbose);
  CLI::App* command = app.add_subcommand("prune");
  command->add_option("--machine", machine)->type_name("NAME");
  command->add_option("-o,--output", output);
  command->add_option("--second", output)->type_name("\"OPTIONS\"");
  command->add_option("--number", number);
  command->add_flag("--dry-run", dry);
  const std::string wrong = misplaced_option(app, arguments);
  if (wrong.empty()) app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  return wrong.empty() ? machine + output : wrong;
}

TEST(MisplacedOption, StandsWhereAValueShould) {
  EXPECT_EQ(misplaced({"prune", "--machine", "--dry-run"}),
            "--machine needs a value: NAME; '--dry-run' behind it is an option itself (as a value: --machine=--dry-run)");
  EXPECT_EQ(misplaced({"prune", "-o", "--machine=x"}),
            "--output needs a value; '--machine=x' behind it is an option itself (as a value: --output=--machine=x)");
  const std::string grouped = misplaced({"prune", "-vo", "-v"});
  EXPECT_EQ(grouped.substr(0, grouped.find(';')), "--output needs a value") << grouped;
  EXPECT_NE(misplaced({"prune", "--machine", "--verbose"}), "--verbose") << "of the command around it";
  EXPECT_NE(misplaced({"--color", "--verbose", "prune"}), "");
  EXPECT_NE(misplaced({"prune", "--machine", "m", "--output", "--machine"}), "m--machine");
}

TEST(MisplacedOption, ValuesMayBeginWithADash) {
  EXPECT_EQ(misplaced({"prune", "--machine=--dry-run"}), "--dry-run");
  EXPECT_EQ(misplaced({"prune", "--machine", "-"}), "-");
  EXPECT_EQ(misplaced({"prune", "--machine", "-5"}), "-5");
  EXPECT_EQ(misplaced({"prune", "--machine", "--dry"}), "--dry") << "no option";
  EXPECT_EQ(misplaced({"prune", "--second", "--dry-run"}), "--dry-run") << "which is what it takes";
  EXPECT_EQ(misplaced({"prune", "--number", "-1.5", "--output", "-"}), "-");
  EXPECT_EQ(misplaced({"--color", "--machine", "prune"}), "") << "an option of another command";
}

}  // namespace
}  // namespace gantry::cli
