#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/weight_file.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/torch_bytes.hpp"

#include <hearth/modules/module.hpp>
#include <hearth/runtime/ops.hpp>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::pickled_dict;
using testing::pickled_number;
using testing::pickled_tensor;
using testing::pickled_text;
using testing::torch_legacy;
using testing::torch_zip;
using testing::TorchView;
using testing::values_bytes;
namespace fs = std::filesystem;

struct Pair {
  Tensor weight, bias;
  HEARTH_MODULE(Pair, weight, bias)
};

class TorchFiles : public ::testing::Test {
 protected:
  WeightFile read(std::string_view bytes) const {
    std::ofstream(path, std::ios::binary) << bytes;
    return read_weights(path);
  }
  // The error's text without the file's name, which it must have.
  std::string refusal(std::string_view bytes) const {
    try {
      static_cast<void>(read(bytes));
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_format);
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      return error.what();
    }
    return "nothing thrown";
  }
  std::vector<float> floats(const WeightFile& file, std::string_view name) const {
    return file.tensor(name, test.cpu).to_vector<float>();
  }
  // A dict of one tensor of three floats.
  static std::string three_floats() {
    return pickled_dict(
        {{"weight", pickled_tensor({.storage_count = 3, .sizes = {3}, .strides = {1}})}});
  }
  Pair pair() const { return {zeros(test.cpu, {2}), zeros(test.cpu, {2})}; }
  static std::string pickled_pair() {
    const auto two = [](std::int32_t offset) {
      return pickled_tensor({.storage_count = 4, .offset = offset, .sizes = {2}, .strides = {1}});
    };
    return pickled_dict({{"weight", two(0)}, {"bias", two(2)}});
  }

  TemporaryFolder folder;
  fs::path path = folder.path() / "weights.pt";
  TestRuntime test;
};

TEST_F(TorchFiles, ViewsOfOneStorageAreReadByTheirStrides) {
  const auto view =
      [](std::int32_t offset, std::vector<std::int32_t> sizes, std::vector<std::int32_t> strides) {
        return pickled_tensor({.storage_count = 6,
                               .offset = offset,
                               .sizes = std::move(sizes),
                               .strides = std::move(strides)});
      };
  const std::string root = pickled_dict({{"dense", view(0, {2, 3}, {3, 1})},
                                         {"turned", view(0, {3, 2}, {1, 3})},
                                         {"column", view(1, {2}, {3})},
                                         {"repeated", view(5, {2, 2}, {0, 0})},
                                         {"one", view(4, {}, {})},
                                         {"none", view(0, {0, 7}, {7, 1})}});
  const std::string data = values_bytes<float>({1, 2, 3, 4, 5, 6});
  for (const bool is_legacy : {false, true}) {
    const WeightFile file =
        read(is_legacy ? torch_legacy(root, {{"0", data}}) : torch_zip(root, {{"0", data}}));
    EXPECT_THAT(floats(file, "dense"), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(floats(file, "turned"), ElementsAre(1, 4, 2, 5, 3, 6));
    EXPECT_THAT(floats(file, "column"), ElementsAre(2, 5));
    EXPECT_THAT(floats(file, "repeated"), ElementsAre(6, 6, 6, 6));
    EXPECT_EQ(file.tensor("one", test.cpu).item(), 5);
    EXPECT_EQ(file.tensor("none", test.cpu).shape(), (Shape{0, 7}));
  }
}

// Above the size that is read in one piece, and with a stride that crosses the pieces.
TEST_F(TorchFiles, AStridedTensorOfSeveralPiecesIsRead) {
  constexpr std::int32_t kSide = 2500;
  std::vector<float> values(static_cast<std::size_t>(kSide) * kSide);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
  }
  const WeightFile file =
      read(torch_zip(pickled_dict({{"w",
                                    pickled_tensor({.storage_count = kSide * kSide,
                                                    .sizes = {kSide, kSide},
                                                    .strides = {1, kSide}})}}),
                     {{"0", values_bytes(values)}}));
  const Runtime simulated({.devices = {{.name = "sim:0"}}});  // not in host memory
  for (const Device& device : {test.cpu, test.reference, simulated.device("sim:0")}) {
    const std::vector<float> read_back = file.tensor("w", device).to_vector<float>();
    ASSERT_EQ(read_back.size(), values.size());
    for (std::size_t i = 0; i < values.size(); i += 997) {
      ASSERT_EQ(read_back[i], values[i % kSide * kSide + i / kSide]) << i;
    }
  }
}

// The error is that of the read, and the device goes on.
TEST_F(TorchFiles, ALargeTensorOfAFileThatShrinksIsAnError) {
  constexpr std::int32_t kCount = 5 << 20;
  const WeightFile file = read(torch_zip(
      pickled_dict(
          {{"w", pickled_tensor({.storage_count = kCount, .sizes = {kCount}, .strides = {1}})}}),
      {{"0", std::string(std::size_t{4} * kCount, '\0')}}));
  fs::resize_file(path, 1 << 20);
  const Runtime simulated({.devices = {{.name = "sim:0"}}});
  for (const Device& device : {test.cpu, simulated.device("sim:0")}) {
    try {
      static_cast<void>(file.tensor("w", device));
      ADD_FAILURE() << "read";
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr("it changed while it was read"));
      EXPECT_THAT(error.what(), HasSubstr("torch_files_test.cpp"));
    }
    EXPECT_EQ(ones(device, {1}).item(), 1);
  }
}

TEST_F(TorchFiles, EveryTypeOfPyTorchIsReadOrNamed) {
  struct Case {
    const char* type;
    std::string bytes;
    DType dtype;
  };
  const std::uint16_t half_of_two = 0x4000;
  for (const Case& each : {Case{"FloatStorage", testing::number_bytes(2.0F), DType::f32},
                           Case{"DoubleStorage", testing::number_bytes(2.0), DType::f64},
                           Case{"HalfStorage", testing::number_bytes(half_of_two), DType::f16},
                           Case{"BFloat16Storage", testing::number_bytes(half_of_two), DType::bf16},
                           Case{"LongStorage", testing::number_bytes(std::int64_t{2}), DType::i64},
                           Case{"IntStorage", testing::number_bytes(std::int32_t{2}), DType::i32},
                           Case{"ShortStorage", testing::number_bytes(std::int16_t{2}), DType::i32},
                           Case{"CharStorage", "\x02", DType::i8},
                           Case{"ByteStorage", "\x02", DType::u8},
                           Case{"BoolStorage", "\x01", DType::boolean}}) {
    const WeightFile file = read(
        torch_zip(pickled_dict({{"x", pickled_tensor({.type = each.type, .storage_count = 1})}}),
                  {{"0", each.bytes}}));
    const Tensor x = file.tensor("x", test.cpu);
    EXPECT_EQ(x.dtype(), each.dtype) << each.type;
    EXPECT_EQ(x.to(DType::f32).item(), each.dtype == DType::boolean ? 1 : 2) << each.type;
  }
  for (const char* const type : {"ComplexFloatStorage", "QInt8Storage", "NewStorage"}) {
    const WeightFile file =
        read(torch_zip(pickled_dict({{"x", pickled_tensor({.type = type, .storage_count = 1})}}),
                       {{"0", std::string(16, 'x')}}));
    EXPECT_THAT(file.at("x").unsupported, HasSubstr(type));
    EXPECT_THROW(static_cast<void>(file.tensor("x", test.cpu)), FileError);
  }
}

// ---- nothing is executed ----

TEST_F(TorchFiles, APickleThatCallsOsSystemDoesNothing) {
  const fs::path trace = folder.path() / "it-ran";
  const std::string call = "cposix\nsystem\n(" + pickled_text("touch " + trace.string()) + "tR";
  EXPECT_THAT(refusal(torch_zip(call, {})),
              HasSubstr("its root is made by 'posix.system', an unknown class or function: nothing "
                        "of a file is run"));
  EXPECT_THAT(refusal(torch_legacy(call, {})), HasSubstr("'posix.system'"));
  std::string root = pickled_pair();
  root.pop_back();
  const std::string file = torch_zip(root + pickled_text("evil") + call + "u",
                                     {{"0", values_bytes<float>({1, 2, 3, 4})}});
  static_cast<void>(read(file));
  Pair model = pair();
  try {
    load_weights(model, path);
    ADD_FAILURE() << "loaded";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor 'evil' (is made by 'posix.system'"));
  }
  const LoadedWeights loaded = load_weights(model, path, {.allow_unused = true});
  EXPECT_THAT(loaded.skipped, ElementsAre(HasSubstr("evil: is made by 'posix.system'")));
  EXPECT_THAT(model.bias.to_vector<float>(), ElementsAre(3, 4));
  EXPECT_FALSE(fs::exists(trace));
}

// ---- names ----

TEST_F(TorchFiles, TheWeightsOfACheckpointAreFound) {
  const std::string data = values_bytes<float>({1, 2, 3, 4});
  const auto one = pickled_tensor({.storage_count = 4, .sizes = {4}, .strides = {1}});
  read(torch_zip(pickled_dict({{"epoch", pickled_number(5)},
                               {"optimizer", pickled_dict({{"momentum", one}})},
                               {"model", pickled_pair()}}),
                 {{"0", data}}));
  Pair model = pair();
  const LoadedWeights loaded = load_weights(model, path, LoadWeightsOptions{});
  EXPECT_EQ(loaded.metadata.at("epoch"), "5");
  EXPECT_THAT(model.weight.to_vector<float>(), ElementsAre(1, 2));
  read(torch_zip(pickled_dict({{"ours", pickled_pair()}}), {{"0", data}}));
  EXPECT_THROW(load_weights(model, path), FileError);
  load_weights(model, path, {.select = "ours"});
  EXPECT_THAT(model.bias.to_vector<float>(), ElementsAre(3, 4));
  try {
    load_weights(model, path, {.select = "yours"});
    ADD_FAILURE() << "loaded";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("no tensor's name begins with the selected 'yours.'; its parts are: "
                          "ours"));
  }
}

TEST_F(TorchFiles, ADotInATensorsNameMakesNoPart) {
  const auto one = pickled_tensor({.storage_count = 1, .sizes = {1}, .strides = {1}});
  const std::string data = values_bytes<float>({1});
  EXPECT_EQ(
      read(torch_zip(pickled_dict({{"model.weight", one}, {"head.weight", one}}), {{"0", data}}))
          .main_part(),
      "");
  EXPECT_EQ(
      read(torch_zip(pickled_dict({{"model", pickled_dict({{"weight", one}})}, {"scale", one}}),
                     {{"0", data}}))
          .main_part(),
      "");
}

TEST_F(TorchFiles, TheBeginThatDataParallelPutsBeforeNamesIsCutOff) {
  std::string root = pickled_dict(
      {{"module.weight", pickled_tensor({.storage_count = 4, .sizes = {2}, .strides = {1}})},
       {"module.bias",
        pickled_tensor({.storage_count = 4, .offset = 2, .sizes = {2}, .strides = {1}})}});
  read(torch_zip(root, {{"0", values_bytes<float>({1, 2, 3, 4})}}));
  Pair model = pair();
  load_weights(model, path);
  EXPECT_THAT(model.bias.to_vector<float>(), ElementsAre(3, 4));
}

TEST_F(TorchFiles, ASecondNameOfATiedWeightIsNotSuperfluous) {
  std::string root = pickled_pair();
  root.pop_back();
  root += pickled_text("tied") +
          pickled_tensor({.storage_count = 4, .sizes = {2}, .strides = {1}}) + "u";
  read(torch_zip(root, {{"0", values_bytes<float>({1, 2, 3, 4})}}));
  Pair model = pair();
  EXPECT_TRUE(load_weights(model, path, LoadWeightsOptions{}).unused.empty());
}

// A module as torch.save(model) writes it: objects with three dicts, whose names are not part of
// the tensors' names.
TEST_F(TorchFiles, AWholeModuleIsReadByItsTensors) {
  const auto module = [](const std::string& parameters, const std::string& modules) {
    return "c__main__\nNet\n)\x81" +
           pickled_dict(
               {{"training", "\x88"}, {"_parameters", parameters}, {"_modules", modules}}) +
           "b";
  };
  const WeightFile file =
      read(torch_zip(module("}", pickled_dict({{"fc", module(pickled_pair(), "}")}})),
                     {{"0", values_bytes<float>({1, 2, 3, 4})}}));
  EXPECT_EQ(file.entries().size(), 2U);
  EXPECT_THAT(floats(file, "fc.bias"), ElementsAre(3, 4));
}

// ---- damaged and hostile files ----

TEST_F(TorchFiles, ElementsOutsideOfTheirStorageAreRefused) {
  const std::string data = values_bytes<float>({1, 2, 3});
  const auto refused = [&](const TorchView& view) {
    return refusal(torch_zip(pickled_dict({{"w", pickled_tensor(view)}}), {{"0", data}}));
  };
  EXPECT_THAT(refused({.storage_count = 3, .offset = 1, .sizes = {3}, .strides = {1}}),
              HasSubstr("tensor 'w': its elements from 1 to 3 do not lie in the 3 of storage '0'"));
  EXPECT_THAT(refused({.storage_count = 3, .sizes = {2147483647}, .strides = {2147483647}}),
              HasSubstr("beyond any storage"));
  EXPECT_THAT(refused({.key = "1", .storage_count = 3, .sizes = {3}, .strides = {1}}),
              HasSubstr("tensor 'w': its storage '1' is missing"));
  EXPECT_THAT(refused({.storage_count = 3, .sizes = {-3}, .strides = {1}}),
              HasSubstr("are no storage, offset, sizes and strides"));
}

// minizip does not miss the last bytes of an archive, the length of a comment, where they are 0.
TEST_F(TorchFiles, EveryTruncatedFileIsRefused) {
  constexpr std::size_t kCommentBytes = 4;
  const std::string data = values_bytes<float>({1, 2, 3});
  for (const std::string& whole :
       {torch_zip(three_floats(), {{"0", data}}), torch_legacy(three_floats(), {{"0", data}})}) {
    static_cast<void>(read(whole));
    const std::size_t end = whole.size() - (whole.starts_with("PK") ? kCommentBytes : 0);
    for (std::size_t size = 1; size < end; ++size) {
      EXPECT_THAT(refusal(std::string_view(whole).substr(0, size)), HasSubstr("file ")) << size;
    }
  }
}

TEST_F(TorchFiles, DeepAndEndlessTreesAreRefused) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) {
    deep += "]";
  }
  EXPECT_THAT(refusal(torch_zip(deep + std::string(99'999, 'a'), {})),
              HasSubstr("more than 200 levels"));
  EXPECT_THAT(
      refusal(torch_zip("]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a", {})),
      HasSubstr("more than 200 levels"))
      << "a list that holds itself";
  std::string laughs = "K\1q" + std::string(1, '\0');
  for (char level = 1; level < 30; ++level) {
    const std::string below = std::string("h") + static_cast<char>(level - 1);
    laughs += "(" + below + below + below + below + "tq" + level;
  }
  EXPECT_THAT(refusal(torch_zip(laughs, {})), HasSubstr("10000000 places"));
}

TEST_F(TorchFiles, DamagedPicklesAreRefusedWithTheirOpcode) {
  EXPECT_THAT(refusal(torch_zip("R", {})), HasSubstr("opcode 0x52 at byte "));
  EXPECT_THAT(refusal(torch_zip("R", {})), HasSubstr("it needs a value, and the stack is empty"));
  EXPECT_THAT(refusal(torch_zip("t", {})), HasSubstr("it needs a mark, and there is none"));
  EXPECT_THAT(refusal(torch_zip("]](at", {})), HasSubstr("it needs 1 values, and the stack has 0"))
      << "a value below the mark";
  EXPECT_THAT(refusal(torch_zip("\xff", {})), HasSubstr("opcode 0xff"));
  EXPECT_THAT(refusal(torch_zip("h\5", {})), HasSubstr("value 5 was never remembered"));
  EXPECT_THAT(refusal(torch_zip("X\xff\xff\xff\x7f", {})),
              HasSubstr("a value of 2147483647 bytes"));
  EXPECT_THAT(refusal(torch_zip("K\1", {})), HasSubstr("its root is neither a dict of tensors"));
}

TEST_F(TorchFiles, OtherArchivesAndFormatsAreNamed) {
  EXPECT_THAT(refusal(testing::zip_of({{"arr_0.npy", "x"}})),
              HasSubstr("a zip archive, but not of torch.save(): it has no data.pkl; its first "
                        "member of 1 is 'arr_0.npy'"));
  EXPECT_THAT(refusal(testing::zip_of({{"a/data.pkl", "x"}}, 8)),
              HasSubstr("its member 'a/data.pkl' is compressed"));
  EXPECT_THAT(refusal(testing::zip_of({{"a/data.pkl", "x"}, {"a/byteorder", "big"}})),
              HasSubstr("its byte order is 'big'"));
  EXPECT_THAT(refusal("abc"), HasSubstr("none of the files of weights that are read here"));
  EXPECT_THAT(refusal("GGUF............"), HasSubstr("it is a GGUF file"));
  EXPECT_THAT(refusal(std::string(257, '\0') + "ustar"), HasSubstr("a tar archive, as PyTorch"));
}

// ---- files that PyTorch wrote ----

class TorchData : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const data = std::getenv("HEARTH_DATA_DIR");  // NOLINT(concurrency-mt-unsafe)
    if (data == nullptr || !fs::exists(fs::path(data) / "torch")) {
      GTEST_SKIP() << "HEARTH_DATA_DIR names no folder with torch/";
    }
    folder = fs::path(data) / "torch";
  }
  std::vector<float> floats(const std::string& file, std::string_view name) const {
    return read_weights(folder / ("src__pytorch__reader__test_data__" + file))
        .tensor(name, test.cpu)
        .to(DType::f32)
        .to_vector<float>();
  }
  fs::path folder;
  TestRuntime test;
};

TEST_F(TorchData, EveryFileIsReadOrRefusedWithItsReason) {
  int read_count = 0;
  int tensor_count = 0;
  std::vector<std::string> refusals;
  for (const auto& each : fs::directory_iterator(folder)) {
    try {
      const WeightFile file = read_weights(each.path());
      for (const WeightFile::Entry& entry : file.entries()) {
        EXPECT_EQ(entry.unsupported, "") << each.path() << " " << entry.name;
        EXPECT_EQ(
            static_cast<std::int64_t>(file.tensor(entry.name, test.cpu).read_bytes().get().size()),
            entry.shape.element_count() * size_bytes(entry.dtype));
        ++tensor_count;
      }
      ++read_count;
    } catch (const FileError& error) {
      refusals.emplace_back(error.what());
    }
  }
  EXPECT_EQ(read_count, 57);
  EXPECT_GT(tensor_count, 57);
  EXPECT_THAT(refusals, ElementsAre(HasSubstr("none of the files of weights")));
}

// Two trainings of one network: the same tensors with other values.
TEST_F(TorchData, ValuesAreThoseThatPyTorchWrote) {
  EXPECT_THAT(floats("float32.pt", "tensor"), ElementsAre(1.0F, 2.5F, -3.7F, 0));
  EXPECT_THAT(floats("float64.pt", "tensor"), ElementsAre(1.1F, 2.2F, 3.3F));
  EXPECT_THAT(floats("int16.pt", "tensor"), ElementsAre(1000, -2000, 3000));
  EXPECT_THAT(floats("bool.pt", "tensor"), ElementsAre(1, 0, 1, 1, 0));
  EXPECT_THAT(floats("scalar.pt", "tensor"), ElementsAre(42));
  EXPECT_THAT(floats("legacy_with_offsets.pt", "tensor3"), ElementsAre(3, 3.1F, 3.2F, 3.3F, 3.4F));
  EXPECT_EQ(floats("legacy_uncloned_views.pt", "tensor2")[9], 59);
}

TEST_F(TorchData, OneNetworkHasTheSameTensorsInBothFormats) {
  const WeightFile torch =
      read_weights(folder / "examples__import-model-weights__weights__mnist.pt");
  const WeightFile safe =
      read_weights(folder / "examples__import-model-weights__weights__mnist.safetensors");
  ASSERT_EQ(torch.entries().size(), safe.entries().size());
  for (const WeightFile::Entry& entry : safe.entries()) {
    EXPECT_EQ(torch.at(entry.name).shape, entry.shape) << entry.name;
    EXPECT_EQ(torch.at(entry.name).dtype, entry.dtype) << entry.name;
  }
}

}  // namespace
}  // namespace hearth
