// The example program on a module whose scores can be computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using ::testing::HasSubstr;

class ClassifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/gantry_classify_XXXXXX";
    folder_ = mkdtemp(name);
    // Scores are the pixels plus one: (1, 3, 1, 1) -> 3 classes.
    testing::ModuleBuilder builder;
    const uint32_t one = builder.constant(1), three = builder.constant(3), bytes = builder.constant(12);
    builder.add_input("image", {one, three, one, one});
    builder.add_output("scores", {one, three});
    builder.call("add_one", {builder.input_buffer(0, bytes), builder.output_buffer(0, bytes)}, {three});
    const auto file = builder.write();
    write("model.gmod", std::string(reinterpret_cast<const char*>(file.data()), file.size()));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  /// Output of the program, its standard error included.
  std::string classify(const std::string& module, const std::string& image, int expected_exit) {
    const std::string command = std::string(GANTRY_CLASSIFY) + " " + (folder_ / module).string() + " " +
                                (folder_ / image).string() + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    std::string text;
    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) text += static_cast<char>(c);
    const int status = pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), expected_exit) << text;
    return text;
  }
  std::filesystem::path folder_;
};

TEST_F(ClassifyTest, RanksTheClassesOfAnImage) {
  // Colours (255, 0, 128) after normalisation: 2.2489, -2.0357, 0.4265; softmax: 0.8508, 0.0117, 0.1375.
  write("image.ppm", std::string("P6\n# a comment\n1 1\n255\n") + '\xff' + '\0' + '\x80');
  const std::string text = classify("model.gmod", "image.ppm", 0);
  EXPECT_THAT(text, HasSubstr("1. class    0   85.08 %"));
  EXPECT_THAT(text, HasSubstr("2. class    2   13.75 %"));
  EXPECT_THAT(text, HasSubstr("3. class    1    1.17 %"));
}

TEST_F(ClassifyTest, SaysWhatIsWrongWithAnImage) {
  write("text.ppm", "hello");
  EXPECT_THAT(classify("model.gmod", "text.ppm", 1), HasSubstr("not a JPEG, PNG"));
  write("short.ppm", "P6\n4 4\n255\nabc");
  EXPECT_THAT(classify("model.gmod", "short.ppm", 1), HasSubstr("truncated"));
  EXPECT_THAT(classify("model.gmod", "absent.ppm", 1), HasSubstr("No such file"));
  EXPECT_THAT(classify("absent.gmod", "short.ppm", 1), HasSubstr("cannot open"));
  write("bad.npy", "hello there, no array");
  EXPECT_THAT(classify("model.gmod", "bad.npy", 1), HasSubstr("not a .npy file"));
}

}  // namespace
}  // namespace gantry::runtime
