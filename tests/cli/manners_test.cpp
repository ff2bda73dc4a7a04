// How the program behaves at a terminal and in a pipe, as a child.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/outcome.h"

namespace gantry::cli {
namespace {

using gantry::testing::contents;
using gantry::testing::Outcome;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

/// Columns of the widest line: none of the texts here has wide characters.
size_t widest(const std::string& text) {
  size_t most = 0;
  for (const std::string& line : lines_of(text)) {
    const auto columns = std::count_if(line.begin(), line.end(),
                                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
    most = std::max(most, static_cast<size_t>(columns));
  }
  return most;
}

class Manners : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() /
        (std::string("gantry_manners_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string shell_line(const std::string& arguments, const std::string& variables) const {
    return "cd '" + folder_.string() +
           "' && env -u NO_COLOR -u CLICOLOR -u CLICOLOR_FORCE -u COLUMNS TERM=xterm " + "XDG_CONFIG_HOME='" +
           folder_.string() + "/config' " + variables + " timeout 120 " GANTRY_PROGRAM " " + arguments;
  }
  /// Its streams are files.
  Outcome gantry(const std::string& arguments, const std::string& variables = "") {
    const std::string out = (folder_ / ".stdout").string(), err = (folder_ / ".stderr").string();
    const int status = std::system(
        (shell_line(arguments, variables) + " >'" + out + "' 2>'" + err + "' </dev/null").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0, contents(out), contents(err)};
  }
  /// Its streams are a terminal of so many columns; what appears there.
  std::string at_terminal(const std::string& arguments, unsigned short columns,
                          const std::string& variables = "") {
    winsize size{24, columns, 0, 0};
    int terminal = -1;
    const std::string command = shell_line(arguments, variables);
    const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    std::string text;
    char buffer[4096];
    for (ssize_t count; (count = read(terminal, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(count));
    close(terminal);
    waitpid(child, nullptr, 0);
    return text;
  }
  void expect_refused(const std::string& arguments, const std::string& part) {
    const Outcome outcome = gantry(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(part)) << arguments;
  }

  std::filesystem::path folder_;
};

TEST_F(Manners, HelpOfACommandIsItsHelpOption) {
  for (const char* command : {"", "bench", "boards", "boards add", "cache clear", "help", "completion"}) {
    const Outcome by_command = gantry(std::string("help ") + command);
    EXPECT_EQ(by_command.code, 0);
    EXPECT_EQ(by_command.out, gantry(std::string(command) + " --help").out) << command;
  }
  expect_refused("help benhc", "did you mean 'bench'");
  expect_refused("help boards lits", "did you mean 'list'");
}

TEST_F(Manners, HelpNamesValuesInItsOwnWords) {
  for (const char* command :
       {"run", "bench", "compare", "tune", "records show", "boards discover", "conformance"}) {
    const std::string text = gantry(std::string("help ") + command).out;
    EXPECT_THAT(text, HasSubstr("Options:")) << command;
    for (const char* parsers : {"FLOAT", "UINT", " INT ", "NONNEGATIVE", "{0}"})
      EXPECT_THAT(text, Not(HasSubstr(parsers))) << command;
  }
}

TEST_F(Manners, StreamsThatTakeNothingAreNoCrash) {
  for (const char* command : {"targets", "help bench", "bench --help", "--version", "zoo nothing", ""}) {
    const int status = std::system((shell_line(command, "") + " >/dev/full 2>&1 </dev/null").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1) << command;
  }
}

TEST_F(Manners, HelpAndTablesFitTheTerminal) {
  for (unsigned short columns : {50, 80, 120}) {
    for (const char* command : {"--help", "help bench", "help ir", "help compile", "targets", "zoo --list"}) {
      const std::string text = at_terminal(std::string(command) + " --color never", columns);
      EXPECT_LE(widest(text), columns) << text;
      EXPECT_GT(lines_of(text).size(), 10u) << text;
    }
  }
  EXPECT_LE(widest(at_terminal("targets --color never", 120, "COLUMNS=45")), 45u) << "COLUMNS wins";
}

TEST_F(Manners, PipedLinesAreAsLongAsTheyNeed) {
  EXPECT_EQ(gantry("targets", "COLUMNS=40").out, gantry("targets").out);
  EXPECT_THAT(gantry("targets", "COLUMNS=40").out, Not(HasSubstr("…")));
}

TEST_F(Manners, ColoursAreForTerminals) {
  const std::string escape = "\x1b[";
  EXPECT_THAT(at_terminal("zoo nothing", 80), HasSubstr("\x1b[1;31mgantry: error:\x1b[0m"));
  EXPECT_THAT(at_terminal("targets", 80), StartsWith("\x1b[1mtarget"));
  for (const char* variables : {"NO_COLOR=1", "CLICOLOR=0", "TERM=dumb"}) {
    EXPECT_THAT(at_terminal("zoo nothing", 80, variables), Not(HasSubstr(escape))) << variables;
  }
  EXPECT_THAT(at_terminal("zoo nothing --color never", 80), Not(HasSubstr(escape)));
  EXPECT_THAT(at_terminal("zoo nothing --color always", 80, "NO_COLOR=1"), HasSubstr(escape));
  EXPECT_THAT(gantry("zoo nothing").err, Not(HasSubstr(escape)));
  EXPECT_THAT(gantry("targets").out, Not(HasSubstr(escape)));
  EXPECT_THAT(gantry("zoo nothing", "CLICOLOR_FORCE=1").err, HasSubstr(escape));
  EXPECT_THAT(gantry("--color always comiple").err, HasSubstr(escape))
      << "also for a line that is not understood";
  EXPECT_THAT(gantry("targets --json --color always").out, Not(HasSubstr(escape)));
  expect_refused("targets --color sometimes", "--color");
}

TEST_F(Manners, VersionSaysWhatTheProgramIsMadeOf) {
  const Outcome version = gantry("version");
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, StartsWith("gantry 0."));
  EXPECT_EQ(version.out, gantry("--version").out);
  const auto json = nlohmann::json::parse(gantry("version --json").out);
  EXPECT_THAT(json["llvm"].get<std::string>(), StartsWith("19."));
  EXPECT_THAT(version.out, HasSubstr("commit " + json["commit"].get<std::string>()));
  for (const char* field : {"version", "onnx", "protobuf", "compiler"}) {
    EXPECT_FALSE(json[field].get<std::string>().empty()) << field;
  }
  EXPECT_TRUE(json.contains("ptxas"));
  const auto without = nlohmann::json::parse(gantry("version --json", "GANTRY_PTXAS=none").out);
  EXPECT_TRUE(without["ptxas"].is_null());
  EXPECT_NE(without["ptxas_problem"], "");
}

TEST_F(Manners, OptionsThatMeanNothingAreRefused) {
  ASSERT_EQ(gantry("zoo lstm -o m.onnx --size 5").code, 0);
  ASSERT_EQ(gantry("compile m.onnx").code, 0);
  expect_refused("run m.gmod --random --opt 2", "compiled already");
  expect_refused("bench m.gmod --opt 1 --no-cache", "leave out --opt and --no-cache");
  expect_refused("run m.gmod --random --precision fp32", "leave out --precision");
  expect_refused("run m.gmod --random --shape input=1x5x64", "leave --shape out");
  expect_refused("run m.gmod --random --shape length=5", "length=5: the module has no dimension 'length'");
  expect_refused("bench m.gmod --dim length=5", "all are fixed");
  expect_refused("inspect m.gmod --shape input=1x5x64", "leave out --shape");
  expect_refused("run m.onnx --random --gpu-arch sm_80", "--device cuda-emulated");
  expect_refused("run m.onnx --random --key some.key", "--on");
  expect_refused("run m.onnx --random --tolerance 1", "--expect");
  expect_refused("run m.onnx --random --threads 1 --cpus 0,1", "--cpus 0,1");
  expect_refused("ir m.onnx --all --after import", "leave out --after");
  expect_refused("ir m.onnx --llvm --all", "leave out --all");
  expect_refused("inspect m.onnx --steps", "--steps");
  expect_refused("zoo --list --seed 3", "leave out --seed");
  expect_refused("zoo lstm --dynamic --batch 3 -o n.onnx", "leave out --batch");
  for (const char* action :
       {"add pi 127.0.0.1:1", "remove pi", "setup me@pi", "update pi", "uninstall me@pi"}) {
    expect_refused(std::string("boards ") + action + " --json", "leave out --json");
    expect_refused(std::string("boards --json ") + action, "leave out --json");
  }
  expect_refused("targets --quiet --verbose", "contradict");
  std::ofstream(folder_ / "r.json") << R"({"schema": "gantry-bench"})";
  expect_refused("bench m.onnx --profile --json --top 3", "leave out --top");
  expect_refused("profile m.onnx --json - --by type", "leave out --by");
  expect_refused("compare m.onnx --second '--opt 1' --label today", "--label requires --history");
  expect_refused("compare r.json r.json --second '--opt 1' --rounds 3",
                 "r.json is a result that was measured already; leave out --second and --rounds");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "n.onnx"));
}

TEST_F(Manners, QuietLeavesResults) {
  ASSERT_EQ(gantry("zoo lstm -o m.onnx --size 5").code, 0);
  const std::string variables = "GANTRY_CACHE_DIR='" + folder_.string() + "/cache'";
  const std::pair<const char*, const char*> results[] = {
      {"run m.onnx --random --output y.npy", "first run"},
      {"run m.onnx --random --expect y.npy", "agrees with y.npy"},
      {"opt m.onnx --passes dead_code -o m.gir", "// dead_code: "},
      {"cache clear", "kernels removed"}};
  for (const auto& [command, result] : results) {
    const Outcome outcome = gantry(std::string(command) + " --quiet", variables);
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr(result)) << command;
    EXPECT_EQ(outcome.err, "") << command;
    EXPECT_THAT(outcome.out, Not(HasSubstr("m.gir"))) << "a file's name alone";
  }
}

TEST_F(Manners, EmptyValuesAreNotTakenForNone) {
  expect_refused("bench m.onnx --on ''", "--on: the value given is empty");
  expect_refused("bench m.onnx --cpus ''", "--cpus: the value given is empty");
  expect_refused("compile m.onnx -o ''", "--output: the value given is empty");
  expect_refused("ir m.onnx --kernel=", "--kernel");
  expect_refused("boards setup me@pi --name ''", "--name: the value given is empty");
  expect_refused("compare m.onnx n.onnx --first ''", "m.onnx: there is no such file");
}

TEST_F(Manners, ValuesThatDoNotDoAreNamedInPlainWords) {
  expect_refused("bench m.onnx --opt", "--opt needs a value: 0..3");
  for (const char* command : {"bench m.onnx", "compare m.onnx", "tune m.onnx", "zoo lstm"}) {
    for (const char* seed : {"x", "-1", "1.5"})
      expect_refused(std::string(command) + " --seed " + seed,
                     std::string("'") + seed + "' is not a whole number from 0");
  }
  expect_refused("zoo lstm --size 0", "'0' is not a whole number from 1");
  expect_refused("zoo lstm --batch -1", "'-1' is not a whole number from 1");
  expect_refused("run m.onnx --tolerance -1", "'-1' is not a number from 0 to 1e+30");
  expect_refused("boards discover --timeout 1x", "'1x' is not a time like 30s");
  expect_refused("completion tcsh", "'tcsh' is none of bash, zsh, fish");
  ASSERT_EQ(gantry("zoo lstm -o m.onnx --size 5").code, 0);
  expect_refused("compare m.onnx --second '--precison fp32'", "'--precison' is no such option");
  expect_refused("compare m.onnx --second '--opt'", "--second \"--opt\": --opt needs a value: 0..3");
}

TEST_F(Manners, SeedIsRefusedWhereNothingIsMadeUp) {
  ASSERT_EQ(gantry("zoo lstm -o m.onnx --size 5").code, 0);
  ASSERT_EQ(gantry("run m.onnx --random --output a.npy").code, 0);
  // The model's input is 1x5x64 floats: 128 bytes of header, as numpy writes it.
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 5, 64), }";
  header.resize(117, ' ');
  std::ofstream(folder_ / "in.npy", std::ios::binary)
      << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << "\n"
      << std::string(5 * 64 * 4, '\0');
  EXPECT_EQ(gantry("run m.onnx --input in.npy").code, 0) << gantry("run m.onnx --input in.npy").err;
  expect_refused("bench m.onnx --input in.npy --seed 4", "leave out --seed");
  expect_refused("run m.onnx --input in.npy --random=4", "leave out --random");
}

TEST_F(Manners, ErrorsNameTheBoardAsTheUserDoes) {
  ASSERT_EQ(gantry("boards add pi 127.0.0.1:1").code, 0);
  EXPECT_THAT(gantry("boards info pi").err, HasSubstr("board pi (127.0.0.1:1): cannot connect"));
  EXPECT_THAT(gantry("boards info 127.0.0.1:1").err, HasSubstr("board 127.0.0.1:1: cannot connect"));
}

TEST_F(Manners, WhatMayHaveBeenMeantIsTheEndOfAMessage) {
  ASSERT_EQ(gantry("boards add pi 127.0.0.1:1").code, 0);
  expect_refused("boards remove pa",
                 "there is no board 'pa' (`gantry boards list` shows all); did you mean 'pi'?\n");
  expect_refused("boards info pa", "nor HOST:PORT; did you mean 'pi'?\n");
  expect_refused("zoo resnet81", "in the zoo (`gantry zoo --list` shows all); did you mean 'resnet18'");
}

TEST_F(Manners, NamesOfAModelCannotSteerTheTerminal) {
  ASSERT_EQ(gantry("zoo lstm -o m.onnx --size 5").code, 0);
  std::string bytes = contents(folder_ / "m.onnx");
  const std::string name = "input", hostile = "i\x1b[2J";
  for (size_t at = 0; (at = bytes.find(name, at)) != std::string::npos; at += name.size())
    bytes.replace(at, name.size(), hostile);
  std::ofstream(folder_ / "m.onnx", std::ios::binary) << bytes;
  const Outcome text = gantry("inspect m.onnx");
  EXPECT_THAT(text.out, HasSubstr("i\\u001b[2J"));
  EXPECT_THAT(text.out, Not(HasSubstr("\x1b")));
  const auto json = nlohmann::json::parse(gantry("inspect m.onnx --json").out);
  EXPECT_EQ(json["inputs"][0]["name"], hostile);
  const Outcome error = gantry("run m.onnx");
  EXPECT_EQ(error.code, 1);
  EXPECT_THAT(error.err, HasSubstr("i\\u001b[2J"));
  EXPECT_THAT(error.err, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace gantry::cli
