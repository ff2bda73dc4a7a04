#include "host/cli/npy.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <future>

#include "host/support/error.h"
#include "host/support/temporary.h"

namespace gantry::cli {
namespace {

using namespace std::string_literals;  // NOLINT: of strings with zeros in them

using ::testing::HasSubstr;

/// A .npy file as numpy would write it.
std::string npy(int major, const std::string& dictionary, const std::string& data) {
  std::string bytes("\x93NUMPY", 6);
  bytes += static_cast<char>(major);
  bytes += '\0';
  const size_t length = dictionary.size() + 1;
  bytes += static_cast<char>(length & 0xff);
  bytes += static_cast<char>(length >> 8);
  if (major > 1) bytes += std::string(2, '\0');
  return bytes + dictionary + "\n" + data;
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

HostTensor parse(const std::string& bytes) {
  return parse_npy(std::as_bytes(std::span(bytes)), "x.npy");
}

template <typename T>
std::vector<T> values_of(const HostTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::string message_of(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), HasSubstr("x.npy"));
    return error.what();
  }
  return "no error";
}

TEST(Npy, EveryFormatVersionIsRead) {
  for (int major : {1, 2, 3}) {
    const HostTensor tensor = parse(npy(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                                        raw<float>({1, 2, 3, 4, 5, 6})));
    EXPECT_EQ(type_name(tensor.type), "f32");
    EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(values_of<float>(tensor), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(Npy, FortranOrderIsTransposedToRowMajor) {
  // numpy.asfortranarray(numpy.arange(24).reshape(2, 3, 4)) stores the first index fastest.
  std::vector<int32_t> stored;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) stored.push_back(i * 12 + j * 4 + k);
    }
  }
  const HostTensor tensor =
      parse(npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3, 4)}", raw(stored)));
  std::vector<int32_t> expected(24);
  for (int i = 0; i < 24; ++i) expected[static_cast<size_t>(i)] = i;
  EXPECT_EQ(values_of<int32_t>(tensor), expected);
}

TEST(Npy, BigEndianElementsAreTurnedAround) {
  const HostTensor words = parse(npy(1, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 2), }",
                                     std::string("\0\1\0\2\1\0\xff\xfe", 8)));
  EXPECT_EQ(values_of<int16_t>(words), (std::vector<int16_t>{1, 256, 2, -2}));
  const HostTensor floats =
      parse(npy(1, "{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }", std::string("\xc0\x04\0\0\0\0\0\0", 8)));
  EXPECT_EQ(values_of<double>(floats), std::vector<double>{-2.5});
  const HostTensor bytes = parse(npy(1, "{'descr': '>u1', 'fortran_order': False, 'shape': (2,), }", "\x01\x02"));
  EXPECT_EQ(values_of<uint8_t>(bytes), (std::vector<uint8_t>{1, 2}));
}

TEST(Npy, BoolsAreZeroOrOneWhateverTheirBytes) {
  const HostTensor bools =
      parse(npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", std::string("\x00\x01\x40", 3)));
  EXPECT_EQ(values_of<uint8_t>(bools), (std::vector<uint8_t>{0, 1, 1}));
}

TEST(Npy, ScalarsEmptyArraysAndOneElementTuplesAreRead) {
  EXPECT_TRUE(parse(npy(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }", raw<int64_t>({7})))
                  .shape.empty());
  EXPECT_EQ(parse(npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (0,), }", "")).shape,
            (std::vector<int64_t>{0}));
  EXPECT_EQ(parse(npy(1, "{'shape': (2,), 'descr': '|u1', 'fortran_order': True}", "ab")).shape,
            (std::vector<int64_t>{2}));
}

TEST(Npy, WhatIsWrittenIsReadBack) {
  for (const std::string name :
       {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"}) {
    HostTensor tensor;
    tensor.type = *parse_type_name(name);
    tensor.shape = {3, 1, 2};
    for (int64_t i = 0; i < byte_count(tensor.type, tensor.shape); ++i)
      tensor.bytes.push_back(std::byte(name == "bool" ? i % 2 : i));
    const std::string bytes = format_npy(tensor);
    EXPECT_EQ((bytes.size() - tensor.bytes.size()) % 64, 0u);
    const HostTensor back = parse(bytes);
    EXPECT_EQ(type_name(back.type), name);
    EXPECT_EQ(back.shape, tensor.shape);
    EXPECT_EQ(back.bytes, tensor.bytes);
  }
}

TEST(Npy, DamageIsNamed) {
  const std::string good =
      npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", raw<float>({1, 2}));
  EXPECT_THAT(message_of("hello"), HasSubstr("not a .npy file"));
  EXPECT_THAT(message_of(good.substr(0, 20)), HasSubstr("truncated"));
  EXPECT_THAT(message_of(good.substr(0, good.size() - 1)), HasSubstr("truncated"));
  EXPECT_THAT(message_of(good + "x"), HasSubstr("longer than its header"));
  EXPECT_THAT(message_of(npy(4, "{}", "")), HasSubstr("version 4"));
  EXPECT_THAT(message_of(npy(1, "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "12345678")),
              HasSubstr("'<c8'"));
  EXPECT_THAT(message_of(npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234")),
              HasSubstr("records"));
}

TEST(Npy, HeadersThatAreNotDictionariesAreErrors) {
  for (const std::string header :
       {"", "{", "{'descr'}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 3, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (1 2)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (99999999999999999999,)}", "{'evil': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': True, 'shape': (1,)}"}) {
    EXPECT_NE(message_of(npy(1, header, "1234")), "no error") << header;
  }
}

TEST(Npy, ShapesWhoseSizeOverflowsAreErrors) {
  EXPECT_THAT(
      message_of(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "")),
      HasSubstr("too large"));
}

TEST(Npy, TruncatedAndAlteredFilesNeverCrash) {
  const std::string good =
      npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", raw<float>({1, 2, 3, 4}));
  for (size_t size = 0; size < good.size(); ++size) EXPECT_NE(message_of(good.substr(0, size)), "no error");
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string altered = good;
      altered[at] = static_cast<char>(altered[at] ^ (1 << bit));
      try {
        parse(altered);
      } catch (const Error&) {
      }
    }
  }
}

TEST(Npy, WhatHasNoEndIsNotReadForever) {
  try {
    read_npy("/dev/zero");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/zero: not a .npy file"));
  }
}

/// Writes to a pipe until whoever reads it has gone; how many bytes it took.
size_t feed(const std::filesystem::path& pipe, const std::string& bytes) {
  sigset_t broken;  // sent to this thread alone, which ends with it pending
  ::sigemptyset(&broken);
  ::sigaddset(&broken, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken, nullptr);
  const int file = ::open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t taken = ::write(file, bytes.data() + written, bytes.size() - written);
    if (taken < 0) break;
    written += static_cast<size_t>(taken);
  }
  ::close(file);
  return written;
}

TEST(Npy, PipesAreReadNoFurtherThanTheirHeadersSay) {
  const TemporaryFolder folder("test");
  const std::filesystem::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string whole =
      npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", raw<float>({1, 2}));
  std::future<size_t> fed = std::async(std::launch::async, feed, pipe, whole);
  EXPECT_EQ(values_of<float>(read_npy(pipe)), (std::vector<float>{1, 2}));
  EXPECT_EQ(fed.get(), whole.size());

  const std::string longer = whole + std::string(size_t{64} << 20, '\0');
  fed = std::async(std::launch::async, feed, pipe, longer);
  try {
    read_npy(pipe);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("longer than its header"));
  }
  EXPECT_LT(fed.get(), longer.size());
}

TEST(Npy, FilesThatCannotBeReadAreUserErrors) {
  try {
    read_npy("/proc/self/mem");  // nothing lies at its beginning
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), HasSubstr("/proc/self/mem: cannot be read"));
  }
}

TEST(TensorText, SummaryCountsNonFiniteElementsApart) {
  const HostTensor tensor =
      parse(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }",
                raw<float>({-1, 3, std::numeric_limits<float>::infinity(), std::nanf("")})));
  const TensorSummary summary = summarise(tensor);
  EXPECT_EQ(summary.min, -1);
  EXPECT_EQ(summary.max, 3);
  EXPECT_EQ(summary.mean, 1);
  EXPECT_EQ(summary.non_finite, 2);
}

TEST(TensorText, HalfPrecisionElementsHaveTheirValues) {
  const HostTensor half = parse(npy(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (4,), }",
                                    raw<uint16_t>({0x3c00, 0xc000, 0x0001, 0x7bff})));
  EXPECT_EQ(element_as_double(half, 0), 1);
  EXPECT_EQ(element_as_double(half, 1), -2);
  EXPECT_EQ(element_as_double(half, 2), 0x1p-24);
  EXPECT_EQ(element_as_double(half, 3), 65504);
}

TEST(Npy, TypesThatNumPyHasNoNameForAreBytes) {
  const auto type = [](const char* name) { return *parse_type_name(name); };
  const HostTensor i4 = parse(format_npy({type("i4"), {2}, {std::byte{0xff}, std::byte{7}}}));
  EXPECT_EQ(type_name(i4.type), "i8");
  EXPECT_EQ(values_of<int8_t>(i4), (std::vector<int8_t>{-1, 7}));
  EXPECT_EQ(type_name(stands_for(i4.type, type("i4"))), "i4");
  const HostTensor f8 = parse(npy(1, "{'descr': '<V1', 'fortran_order': False, 'shape': (1,), }", raw<uint8_t>({0x3c})));
  EXPECT_EQ(type_name(stands_for(f8.type, type("f8e5m2"))), "f8e5m2");
  EXPECT_EQ(type_name(stands_for(f8.type, type("f32"))), "u8");
  EXPECT_EQ(type_name(stands_for(type("f32"), type("i4"))), "f32");
  EXPECT_EQ(element_as_double({type("f8e5m2"), {1}, f8.bytes}, 0), 1);
  EXPECT_NO_THROW(check_elements({type("i4"), {2}, i4.bytes}, "x.npy"));
  EXPECT_THROW(check_elements({type("u4"), {2}, i4.bytes}, "x.npy"), Error);
}

TEST(Npy, BytesInMemoryStandForIntegersOfLessThan8BitsAlone) {
  const auto given = [](const char* type, const char* wanted) {
    return type_name(array_stands_for(*parse_type_name(type), *parse_type_name(wanted)));
  };
  EXPECT_EQ(given("i8", "i4"), "i4");
  EXPECT_EQ(given("u8", "u2"), "u2");
  EXPECT_EQ(given("u8", "i4"), "u8");
  EXPECT_EQ(given("u8", "f8e5m2"), "u8");
  EXPECT_EQ(given("i16", "i4"), "i16");
  EXPECT_EQ(given("i4", "i8"), "i4");
}

TEST(Npy, MlDtypesBytesAreReadByTheTypeThatIsWanted) {
  const auto bytes_as = [](const char* wanted, const std::vector<uint8_t>& bytes) {
    const std::string shape = fmt::format("{{'descr': '<V1', 'fortran_order': False, 'shape': ({},), }}", bytes.size());
    HostTensor tensor = parse(npy(1, shape, raw(bytes)));
    read_as(tensor, *parse_type_name(wanted));
    EXPECT_EQ(type_name(tensor.type), wanted);
    return values_of<int8_t>(tensor);
  };
  EXPECT_EQ(bytes_as("i4", {0x0f, 0x08, 7, 0, 0x10}), (std::vector<int8_t>{-1, -8, 7, 0, 0x10}));
  EXPECT_EQ(bytes_as("i2", {3, 2, 1, 0}), (std::vector<int8_t>{-1, -2, 1, 0}));
  EXPECT_EQ(bytes_as("u4", {0x0f, 8}), (std::vector<int8_t>{15, 8}));
  EXPECT_EQ(bytes_as("u8", {0xff, 8}), (std::vector<int8_t>{-1, 8}));
  // A u8 that is too large stays one.
  HostTensor named = parse(npy(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", raw<uint8_t>({15})));
  read_as(named, *parse_type_name("i4"));
  EXPECT_THROW(check_elements(named, "x.npy"), Error);
  // Its float8_e5m2 has a letter of NumPy's.
  const HostTensor f8 = parse(npy(1, "{'descr': '<f1', 'fortran_order': False, 'shape': (1,), }", raw<uint8_t>({0x3c})));
  EXPECT_EQ(type_name(f8.type), "f8e5m2");
  EXPECT_EQ(element_as_double(f8, 0), 1);
}

std::string ucs4(const std::u32string& points) {
  return raw(std::vector<uint32_t>(points.begin(), points.end()));
}

TEST(NpyStrings, AreReadInEveryFormOfNumPys) {
  const std::string shape = "'fortran_order': False, 'shape': (2,), }";
  const std::string elements = ucs4(U"a\0é日"s);
  EXPECT_THAT(texts_of(parse(npy(1, "{'descr': '<U2', " + shape, elements))),
              ::testing::ElementsAre("a", "é日"));
  std::string swapped = elements;
  for (size_t i = 0; i < swapped.size(); i += 4)
    std::reverse(swapped.begin() + static_cast<long>(i), swapped.begin() + static_cast<long>(i) + 4);
  EXPECT_THAT(texts_of(parse(npy(1, "{'descr': '>U2', " + shape, swapped))),
              ::testing::ElementsAre("a", "é日"));
  EXPECT_THAT(texts_of(parse(npy(1, "{'descr': '|S3', " + shape, std::string("ab\0xyz", 6)))),
              ::testing::ElementsAre("ab", "xyz"));
  EXPECT_THAT(
      texts_of(parse(npy(1, "{'descr': '<U1', 'fortran_order': True, 'shape': (2, 2), }", ucs4(U"abcd")))),
      ::testing::ElementsAre("a", "c", "b", "d"));
}

TEST(NpyStrings, WrittenOnesReadBack) {
  const HostTensor tensor =
      parse(npy(1, "{'descr': '<U2', 'fortran_order': False, 'shape': (2, 1), }", ucs4(U"a\0é日"s)));
  const std::string written = format_npy(tensor);
  EXPECT_THAT(written, HasSubstr("'<U2'"));
  const HostTensor back = parse(written);
  EXPECT_EQ(back.shape, tensor.shape);
  EXPECT_EQ(back.bytes, tensor.bytes);
}

TEST(NpyStrings, ObjectsAndCutFilesAreRefused) {
  const auto message = [](const std::string& bytes) {
    try {
      parse(bytes);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(npy(1, "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "x")),
              HasSubstr("astype(str)"));
  EXPECT_THAT(message(npy(1, "{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }", ucs4(U"abc"))),
              HasSubstr("truncated"));
}

}  // namespace
}  // namespace gantry::cli
