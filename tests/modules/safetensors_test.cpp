#include <hearth/modules/safetensors.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Length, header, data: as any other program would write them.
std::string file_text(std::string_view header, std::string_view data) {
  std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text.append(header).append(data);
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The correct checksum of a file: over the header without the checksum, and the data.
std::string checksum_of(std::string header, std::span<const std::byte> data) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::array<std::span<const std::byte>, 2> pieces{std::as_bytes(std::span(header)), data};
  return fmt::format("{:016x}", xxh3_64(pieces));
}

class Safetensors : public ::testing::Test {
 protected:
  void write(std::string_view text) const {
    std::filesystem::remove(path);  // otherwise the file system waits for its disk
    std::ofstream(path, std::ios::binary) << text;
  }
  // Expects that the reader refuses the file with an error that names it.
  void expect_refused(std::string_view text, const std::string& why) const {
    write(text);
    try {
      static_cast<void>(SafetensorsFile::read(path));
      ADD_FAILURE() << "read: " << why;
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_format);
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }
  void expect_header_refused(std::string_view header, const std::string& why) const {
    expect_refused(file_text(header, std::string(8, 'x')), why);
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder.path() / "model.safetensors";
  TestRuntime test;
};

TEST_F(Safetensors, EveryTypeComesBackBitByBit) {
  std::vector<NamedTensor> tensors;
  const Tensor numbers = arange(test.cpu, -3, 3, 1, DType::f32);
  for (const DType dtype : {DType::boolean,
                            DType::f32,
                            DType::f64,
                            DType::f16,
                            DType::bf16,
                            DType::i32,
                            DType::i64,
                            DType::u8,
                            DType::i8}) {
    tensors.push_back(
        {std::string("t.") + std::string(name(dtype)), reshape(cast(numbers, dtype), {2, 3})});
  }
  tensors.push_back({"scalar", full(test.reference, {}, 2.5)});
  tensors.push_back({"nothing", zeros(test.cpu, {0, 4})});
  write_safetensors(path, tensors, {{"step", "12"}, {"note", "ü \"quoted\""}});

  const SafetensorsFile file = SafetensorsFile::read(path);
  EXPECT_EQ(file.metadata(), (Metadata{{"step", "12"}, {"note", "ü \"quoted\""}}));
  EXPECT_EQ(file.entries().size(), tensors.size());
  for (const NamedTensor& named : tensors) {
    const Tensor loaded = file.tensor(named.name, test.cpu);
    EXPECT_EQ(loaded.dtype(), named.tensor.dtype());
    EXPECT_EQ(loaded.shape(), named.tensor.shape());
    EXPECT_EQ(loaded.read_bytes().get(), named.tensor.read_bytes().get()) << named.name;
  }
}

// The requirements of Python's safetensors: the length, JSON with sorted offsets that cover the
// data, aligned tensors.
TEST_F(Safetensors, TheFileIsLaidOutAsOthersExpectIt) {
  write_safetensors(path,
                    std::vector<NamedTensor>{{"b", Tensor::from(test.cpu, {std::uint8_t{7}}, {1})},
                                             {"a", Tensor::from(test.cpu, {1.0F, 2.0F}, {2})}});
  const std::vector<std::byte> bytes = read_file(path).value();
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  ASSERT_EQ(bytes.size(), 8 + length + 9);
  std::string header(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  header.erase(header.find_last_not_of(' ') + 1);
  const std::span<const std::byte> data = std::span(bytes).subspan(8 + length);
  EXPECT_EQ(header,
            fmt::format(R"({{"__metadata__":{{"hearth.xxh3_64":"{}"}},)"
                        R"("a":{{"data_offsets":[0,8],"shape":[2],"dtype":"F32"}},)"
                        R"("b":{{"data_offsets":[8,9],"shape":[1],"dtype":"U8"}}}})",
                        checksum_of(R"({"a":{"data_offsets":[0,8],"shape":[2],"dtype":"F32"},)"
                                    R"("b":{"data_offsets":[8,9],"shape":[1],"dtype":"U8"}})",
                                    data)));
  float second = 0;
  std::memcpy(&second, bytes.data() + 8 + length + 4, 4);
  EXPECT_EQ(second, 2);
  EXPECT_EQ(bytes.back(), std::byte{7});
}

TEST_F(Safetensors, AFlippedBitAnywhereIsFoundOrChangesNothing) {
  write_safetensors(path,
                    std::vector<NamedTensor>{{"a", Tensor::from(test.cpu, {1.0F, 2.0F}, {2})},
                                             {"b", Tensor::from(test.cpu, {3.0F}, {1})}},
                    {{"note", "x\n\x1f"}, {"step", "1"}});
  const std::string good = text_of(read_file(path).value());
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    write(bad);
    try {
      const SafetensorsFile file = SafetensorsFile::read(path);
      EXPECT_EQ(file.metadata(), (Metadata{{"note", "x\n\x1f"}, {"step", "1"}})) << bad;
      EXPECT_EQ(text_of(file.bytes(file.at("a"))) + text_of(file.bytes(file.at("b"))),
                good.substr(good.size() - 12))
          << bad;
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_format);
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
    }
  }
}

// One flipped bit in the header and one in the data. Even if the first hides the checksum's name or
// the file's writer, the damaged data are not read.
TEST_F(Safetensors, DamageToTheHeaderDoesNotHideDamageToTheData) {
  write_safetensors(path,
                    std::vector<NamedTensor>{{"a", Tensor::from(test.cpu, {1.0F, 2.0F}, {2})},
                                             {"b", Tensor::from(test.cpu, {3.0F}, {1})}});
  const std::string good = text_of(read_file(path).value());
  for (std::size_t bit = 0; bit < 8 * (good.size() - 12); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    bad.back() = static_cast<char>(bad.back() ^ 1);
    write(bad);
    EXPECT_THROW(static_cast<void>(SafetensorsFile::read(path)), FileError) << bad;
  }
}

TEST_F(Safetensors, AFileOfOursWithoutItsChecksumIsDamaged) {
  expect_header_refused(R"({"__metadata__":{"hearth.xxh3_65":"12"},)"
                        R"("a":{"data_offsets":[0,8], "shape":[8],"dtype":"U8"}})",
                        "spelled as this library does it, and has no hearth.xxh3_64");
}

TEST_F(Safetensors, AFileOfBeforeWithSortedMembersIsStillChecked) {
  const std::string bare = R"({"a":{"data_offsets":[0,8],"dtype":"U8","shape":[8]}})";
  const std::string data = "12345678";
  const std::string header = R"({"__metadata__":{"hearth.xxh3_64":")" +
                             checksum_of(bare, std::as_bytes(std::span(data))) +
                             R"("},"a":{"data_offsets":[0,8],"dtype":"U8","shape":[8]}})";
  write(file_text(header, data));
  EXPECT_TRUE(SafetensorsFile::read(path).is_verified());
  expect_refused(file_text(header, "12345679"), "damaged: its checksum is");
}

TEST_F(Safetensors, TheErrorOfADamagedTensorHasBothChecksums) {
  write_safetensors(path, std::vector<NamedTensor>{{"a", Tensor::from(test.cpu, {1.0F}, {1})}});
  std::vector<std::byte> bytes = read_file(path).value();
  const std::string header = R"({"a":{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}})";
  const auto data = std::span<const std::byte>(bytes).last(4);
  const std::string expected = checksum_of(header, data);
  bytes.back() ^= std::byte{4};
  expect_refused(
      text_of(bytes),
      fmt::format(
          "its checksum is {}, but hearth.xxh3_64 is {}", checksum_of(header, data), expected));
}

// The output of Python's save_file(tensors, path, metadata=old.metadata()): wide types first, then
// by name; dtype, shape, offsets; and our checksum of the earlier file.
TEST_F(Safetensors, AFileThatPythonSavedAgainWithItsMetadataIsRead) {
  write_safetensors(path,
                    std::vector<NamedTensor>{{"c", Tensor::from(test.cpu, {std::uint8_t{7}}, {1})},
                                             {"b", Tensor::from(test.cpu, {1.0F, 2.0F}, {2})},
                                             {"a", Tensor::from(test.cpu, {3.0F}, {1})}},
                    {{"note", "x"}});
  const std::string old = text_of(read_file(path).value());
  const std::string word = old.substr(old.find(kChecksumName) + kChecksumName.size() + 3, 16);
  const std::string_view numbers("\0\0\x40\x40\0\0\x80\x3f\0\0\0\x40\x07", 13);
  for (const std::string_view changed : {"", "\x08"}) {
    std::string data(numbers.substr(0, numbers.size() - changed.size()));
    data.append(changed);
    std::string header = R"({"__metadata__":{"note":"x","hearth.xxh3_64":")" + word +
                         R"("},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                         R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
                         R"("c":{"dtype":"U8","shape":[1],"data_offsets":[12,13]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    write(file_text(header, data));
    const SafetensorsFile file = SafetensorsFile::read(path);
    EXPECT_EQ(file.metadata(), (Metadata{{"note", "x"}}));
    EXPECT_THAT(file.tensor("b", test.cpu).to_vector<float>(), ElementsAre(1, 2));
    EXPECT_EQ(text_of(file.bytes(file.at("c"))), data.substr(12));
  }
}

TEST_F(Safetensors, AnOldChecksumAmongTheMetadataThatAProgramGivesIsReplaced) {
  write_safetensors(path,
                    std::vector<NamedTensor>{{"a", ones(test.cpu, {1})}},
                    {{std::string(kChecksumName), "of other tensors"}});
  EXPECT_EQ(SafetensorsFile::read(path).tensor("a", test.cpu).item(), 1);
}

TEST_F(Safetensors, AFileWithoutTensorsHasAChecksumToo) {
  write_safetensors(path, {});
  EXPECT_TRUE(SafetensorsFile::read(path).entries().empty());
}

TEST_F(Safetensors, RefusesAChecksumThatIsNone) {
  expect_refused(file_text(R"({"__metadata__":{"hearth.xxh3_64":"12"},)"
                           R"("a":{"data_offsets":[0,8],"dtype":"U8","shape":[8]}})",
                           "12345678"),
                 "hearth.xxh3_64 is 12");
}

TEST_F(Safetensors, ReadsWhatAnotherProgramWrote) {
  write(
      file_text(R"({"__metadata__":{"format":"pt"}, "x":{"dtype":"BOOL","shape":[2,1],)"
                R"("data_offsets":[8,10]},"w":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}   )",
                std::string_view("\0\0\0\0\0\0\xf8\x3f\x01\x00", 10)));
  const SafetensorsFile file = SafetensorsFile::read(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.tensor("w", test.cpu).item(), 1.5);
  EXPECT_THAT(file.tensor("x", test.cpu).to_vector<std::uint8_t>(), ElementsAre(1, 0));
  EXPECT_THROW(static_cast<void>(file.at("y")), FileError);
}

TEST_F(Safetensors, RefusesWrongLengths) {
  expect_refused("1234567", "truncated: expected 8 bytes of header length, got 7");
  expect_refused(std::string("\x09\0\0\0\0\0\0\0{}", 10),
                 "the header length at byte 0 is 9, but 2 bytes follow");
  expect_refused(std::string(16, '\xff'), "the header length at byte 0 is");
  const std::string whole =
      file_text(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", "12345678");
  expect_refused(whole.substr(0, whole.size() - 1),
                 "tensor 'a': data_offsets [0,8] do not lie in the 7 bytes of data: the file is "
                 "shorter than its header states: it is truncated or damaged");
  expect_refused(whole + "9", "the tensors end at byte 8 of the data, but there are 9 bytes");
}

TEST_F(Safetensors, RefusesHeadersThatAreNone) {
  expect_header_refused("{\"a\":", "the header is not JSON: parse error at line 1, column 6");
  expect_header_refused("[1]", "the header is not a JSON object");
  expect_header_refused("\"\xff\"", "the header is not JSON");
  expect_header_refused(std::string_view("{}\0x", 4), "the header is not JSON: it has a zero byte");
  expect_header_refused(R"({"__metadata__":{"a":1}})", "__metadata__ is not an object of texts");
  expect_header_refused(R"({"a":3})", "tensor 'a': expected dtype, shape and data_offsets, got 3");
}

TEST_F(Safetensors, RefusesEntriesThatContradictThemselves) {
  expect_header_refused(R"({"a":{"dtype":8,"shape":[8],"data_offsets":[0,8]}})",
                        "tensor 'a': the type 8 is no text");
  expect_header_refused(R"({"a":{"dtype":"U8","shape":[-8],"data_offsets":[0,8]}})",
                        "tensor 'a': its shape is [-8]");
  expect_header_refused(R"({"a":{"dtype":"U8","shape":8,"data_offsets":[0,8]}})",
                        "tensor 'a': its shape is 8");
  expect_header_refused(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
                        "tensor 'a': f32[3] needs 12 bytes, data_offsets [0,8] give 8");
  expect_header_refused(
      R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
      "tensor 'a':");
  expect_header_refused(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[8,0]}})",
                        "tensor 'a': data_offsets [8,0] do not lie in the 8 bytes");
  expect_header_refused(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8.0]}})",
                        "tensor 'a': data_offsets [0,8.0] do not lie");
}

// The text of the error that `fn` throws; it must name the file.
template <class Fn>
std::string refusal(const std::filesystem::path& path, const Fn& fn) {
  try {
    fn();
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_format);
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
    return error.what();
  }
  return "nothing thrown";
}

TEST_F(Safetensors, ABoolThatIsNeitherTrueNorFalseIsRefusedWhenItIsUsed) {
  write(file_text(R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},)"
                  R"("b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
                  std::string_view("\0\1\2\7", 4)));
  const SafetensorsFile file = SafetensorsFile::read(path);
  EXPECT_THAT(file.tensor("b", test.cpu).to_vector<std::uint8_t>(), ElementsAre(7));
  EXPECT_THAT(refusal(path, [&] { (void)file.tensor("a", test.cpu); }),
              HasSubstr("tensor 'a': byte 2 of a BOOL is 2, neither 0 nor 1"));
}

// Integers that tensors have not become wider ones.
TEST_F(Safetensors, IntegersOfOtherWidthsAreWidened) {
  struct Case {
    const char* type;
    std::string_view data;
    DType dtype;
    std::vector<std::int64_t> values;
  };
  for (const Case& each :
       {Case{"I16", std::string_view("\xff\xff\x07\x00", 4), DType::i32, {-1, 7}},
        Case{"U16", std::string_view("\xff\xff\x07\x00", 4), DType::i32, {65535, 7}},
        Case{"U32", std::string_view("\xff\xff\xff\xff\x07\0\0\0", 8), DType::i64, {4294967295, 7}},
        Case{"U64",
             "\xff\xff\xff\xff\xff\xff\xff\x7f",
             DType::i64,
             {std::numeric_limits<std::int64_t>::max()}}}) {
    write(file_text(fmt::format(R"({{"x":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})",
                                each.type,
                                each.values.size(),
                                each.data.size()),
                    each.data));
    const SafetensorsFile file = SafetensorsFile::read(path);
    EXPECT_EQ(file.at("x").dtype, each.dtype) << each.type;
    EXPECT_EQ(text_of(file.bytes(file.at("x"))), each.data) << each.type;
    EXPECT_EQ(file.tensor("x", test.cpu).to(DType::i64).to_vector<std::int64_t>(), each.values)
        << each.type;
  }
}

TEST_F(Safetensors, AnUnsignedNumberAboveTheWidestTypeIsRefusedWhenItIsRead) {
  write(file_text(R"({"x":{"dtype":"U64","shape":[2],"data_offsets":[0,16]}})",
                  std::string_view("\7\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80", 16)));
  const SafetensorsFile file = SafetensorsFile::read(path);
  EXPECT_THAT(refusal(path, [&] { (void)file.tensor("x", test.cpu); }),
              HasSubstr("tensor 'x': element 1 of a U64 is 9223372036854775808, which i64 cannot "
                        "hold"));
}

TEST_F(Safetensors, AFileThatShrinksWhileItIsReadIsAnError) {
  write(file_text(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", "12345678"));
  const SafetensorsFile file = SafetensorsFile::read(path);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size - 4);
  EXPECT_THAT(refusal(path, [&] { (void)file.tensor("a", test.cpu); }),
              HasSubstr(fmt::format(
                  "it changed while it was read: it had {} bytes and has {} now", size, size - 4)));
}

// Every type of the format that the library lacks, and one that the format lacks. Two elements of
// each type, or eight for types smaller than a byte.
TEST_F(Safetensors, ATypeThatTheLibraryLacksIsRefusedWhenItIsUsed) {
  struct Case {
    const char* type;
    int count;
    int size_bytes;
  };
  for (const Case& each : {Case{"C64", 2, 16},
                           Case{"F8_E4M3", 2, 2},
                           Case{"F8_E5M2", 2, 2},
                           Case{"F8_E8M0", 2, 2},
                           Case{"F8_E4M3FNUZ", 2, 2},
                           Case{"F8_E5M2FNUZ", 2, 2},
                           Case{"F6_E2M3", 8, 6},
                           Case{"F6_E3M2", 8, 6},
                           Case{"F4", 8, 4},
                           Case{"f32", 2, 8},
                           Case{"F128", 2, 32}}) {
    const std::string header =
        fmt::format(R"({{"w":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}},)"
                    R"("x":{{"dtype":"{}","shape":[{}],"data_offsets":[4,{}]}}}})",
                    each.type,
                    each.count,
                    4 + each.size_bytes);
    const std::string data = std::string("\0\0\xc0\x3f", 4) +
                             std::string(static_cast<std::size_t>(each.size_bytes), 'x');
    write(file_text(header, data));
    const SafetensorsFile file = SafetensorsFile::read(path);
    EXPECT_EQ(file.tensor("w", test.cpu).item(), 1.5F) << each.type;
    EXPECT_EQ(text_of(file.bytes(file.at("x"))), data.substr(4)) << each.type;
    const std::string why = fmt::format(
        R"("{0}"[{1}] has a type that is none of F32, F64, F16, BF16, I32, I64, U8, BOOL, I8, I16, U16, U32, U64)",
        each.type,
        each.count);
    EXPECT_THAT(refusal(path, [&] { (void)file.tensor("x", test.cpu); }),
                HasSubstr("tensor 'x': " + why));
    const std::vector<NamedTensor> w{{"w", ones(test.cpu, {1})}};
    const WeightMatches lenient = file.match(w, {.allow_unused = true});
    EXPECT_THAT(lenient.unused, ElementsAre("x"));
    EXPECT_THAT(lenient.skipped, ElementsAre("x: " + why));
    EXPECT_THAT(refusal(path, [&] { (void)file.match(w, {}); }),
                HasSubstr("tensor 'x' (" + why + ") belongs to no parameter"));
    const std::vector<NamedTensor> both{w[0], {"x", ones(test.cpu, {each.count})}};
    EXPECT_THAT(refusal(path, [&] { (void)file.match(both, {.cast = true}); }),
                HasSubstr("tensor 'x': " + why + "; the model expects f32["));
  }
}

TEST_F(Safetensors, ATensorOfTooManyDimensionsIsRefusedWhenItIsUsed) {
  write(file_text(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                  R"("x":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[4,8]},)"
                  R"("y":{"dtype":"F32","shape":[0,4611686018427387904],"data_offsets":[8,8]}})",
                  "12345678"));
  const SafetensorsFile file = SafetensorsFile::read(path);
  EXPECT_EQ(file.tensor("w", test.cpu).shape(), (Shape{1}));
  for (const char* name : {"x", "y"}) {
    EXPECT_THAT(refusal(path, [&] { (void)file.tensor(name, test.cpu); }),
                HasSubstr(fmt::format("tensor '{}': shape: ", name)));
  }
}

// Variants that the format allows: no metadata, spaces at the end or none, data at odd bytes,
// entries in any order, tensors without elements, and no tensor at all.
TEST_F(Safetensors, ReadsEveryFormThatTheFormatAllows) {
  const std::string one("\0\0\xc0\x3f", 4);
  const std::string entry = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  for (const std::string& header : {"{\"__metadata__\":null," + entry + "}",
                                    "{\"__metadata__\":{}," + entry + "}",
                                    "{" + entry + ",\"__metadata__\":{\"format\":\"pt\"}}",
                                    "{" + entry + "}",
                                    "{" + entry + "}       "}) {
    write(file_text(header, one));
    EXPECT_EQ(SafetensorsFile::read(path).tensor("w", test.cpu).item(), 1.5F) << header;
  }
  write(file_text(R"({"w":{"dtype":"F32","shape":[],"data_offsets":[1,5]},)"
                  R"("none":{"dtype":"F32","shape":[0,3],"data_offsets":[5,5]},)"
                  R"("a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
                  "\xff" + one));
  const SafetensorsFile odd = SafetensorsFile::read(path);
  EXPECT_EQ(odd.tensor("w", test.cpu).item(), 1.5F);
  EXPECT_EQ(odd.tensor("none", test.cpu).shape(), (Shape{0, 3}));
  EXPECT_EQ(odd.tensor("a", test.cpu).item<std::int8_t>(), -1);
  // The length's first byte is that of a text: 123 is '{'. The name's end does not matter.
  const std::filesystem::path other = folder.path() / "weights.bin";
  std::filesystem::remove(other);
  std::string padded = "{" + entry + "}";
  padded.resize(123, ' ');
  std::ofstream(other, std::ios::binary) << file_text(padded, one);
  EXPECT_EQ(read_weights(other).entries().size(), 1U);
  // A further member of an entry, of any kind.
  write(file_text(
      R"({"w":{"dtype":"F32","note":{"by":[{"a":[1]}]},"shape":[1],"data_offsets":[0,4]}})", one));
  EXPECT_EQ(SafetensorsFile::read(path).tensor("w", test.cpu).item(), 1.5F);
  write(file_text("{}", ""));
  EXPECT_TRUE(SafetensorsFile::read(path).entries().empty());
}

TEST_F(Safetensors, RefusesOverlapsHolesAndDoubles) {
  expect_header_refused(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                        R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                        "tensor 'b' begins at byte 4 of the data, but the one before ends at 5");
  expect_header_refused(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                        R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                        "tensor 'b' begins at byte 4 of the data, but the one before ends at 3");
  expect_header_refused(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                        R"("a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                        "the name 'a' stands twice");
}

TEST_F(Safetensors, SaysWhenThereIsNoFile) {
  try {
    static_cast<void>(SafetensorsFile::read(path));
    FAIL() << "a file out of nothing";
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
  }
}

TEST_F(Safetensors, DoesNotWriteWhatItCouldNotRead) {
  const Tensor one = ones(test.cpu, {1});
  const auto write_all = [&](const std::vector<NamedTensor>& tensors) {
    write_safetensors(path, tensors);
  };
  EXPECT_THROW(write_all({{"a", one}, {"a", one}}), ArgumentError);
  EXPECT_THROW(write_all({{"__metadata__", one}}), ArgumentError);
  EXPECT_THROW(write_all({{"a", Tensor()}}), ArgumentError);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Safetensors, DoesNotWriteAHeaderThatIsLongerThanTheFormatAllows) {
  const std::vector<NamedTensor> tensors{{"a", ones(test.cpu, {1})}};
  try {
    write_safetensors(path, tensors, {{"note", std::string(100'000'000, 'x')}});
    ADD_FAILURE() << "written";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("names and metadata make a header of 1000000"));
    EXPECT_THAT(error.what(), HasSubstr("the format allows 100000000"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Any name and any text that a program may choose survive a save.
TEST_F(Safetensors, OddNamesAndTextsComeBack) {
  const std::string zero("a\0b", 3);
  const Tensor one = ones(test.cpu, {1});
  const std::vector<NamedTensor> tensors{{"", one},
                                         {zero, one},
                                         {"data_offsets", one},
                                         {"\"}:{", one},
                                         {"hearth.xxh3_64", one},
                                         {"z", zeros(test.cpu, {std::int64_t{1} << 59, 0})},
                                         {"\x01\x7f", one}};
  const Metadata metadata{{"", ""}, {"data_offsets", "shape"}, {"shape", zero}, {"dtype", "F32"}};
  write_safetensors(path, tensors, metadata);
  const SafetensorsFile file = SafetensorsFile::read(path);
  EXPECT_TRUE(file.is_verified());
  EXPECT_EQ(file.metadata(), metadata);
  file.require_exactly(tensors);
}

TEST_F(Safetensors, APoisonedTensorLeavesTheOldFile) {
  write_safetensors(path, std::vector<NamedTensor>{{"a", ones(test.cpu, {1})}});
  const Tensor poisoned =
      cross_entropy(zeros(test.cpu, {1, 2}), Tensor::from(test.cpu, {std::int64_t{2}}, {1}));
  EXPECT_THROW(write_safetensors(path, std::vector<NamedTensor>{{"a", poisoned}}), DeviceError);
  EXPECT_EQ(SafetensorsFile::read(path).tensor("a", test.cpu).item(), 1);
}

TEST_F(Safetensors, AFullDiskLeavesTheOldFile) {
  write_safetensors(path, std::vector<NamedTensor>{{"a", ones(test.cpu, {1})}});
  void (*const handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ErrorCode code = ErrorCode::internal;
  try {
    write_safetensors(path, std::vector<NamedTensor>{{"a", zeros(test.cpu, {10'000})}});
  } catch (const FileError& error) {
    code = error.code();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, ErrorCode::io_error);
  EXPECT_EQ(SafetensorsFile::read(path).tensor("a", test.cpu).item(), 1);
  EXPECT_EQ(folder.file_count(), 1U);
}

}  // namespace
}  // namespace hearth
