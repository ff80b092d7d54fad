#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/safetensors.hpp>
#include <hearth/modules/weight_file.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/sanitizers.hpp"
#include "tests/support/torch_bytes.hpp"

#include <hearth/modules/module.hpp>
#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

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
namespace fs = std::filesystem;

struct Pair {
  Tensor weight, bias;
  HEARTH_MODULE(Pair, weight, bias)
};

class WeightIndex : public ::testing::Test {
 protected:
  void write_index(std::string_view map) const {
    std::ofstream(index) << R"({"metadata":{"total_size":16,"format":"pt"},"weight_map":)" << map
                         << "}";
  }
  void write_shard(const char* file, const char* name, double value) const {
    write_safetensors(folder.path() / file,
                      std::vector<NamedTensor>{{name, full(test.cpu, {2}, value)}});
  }
  void write_shards() const {
    write_shard("model-1.safetensors", "weight", 1);
    write_shard("model-2.safetensors", "bias", 2);
    write_index(R"({"bias":"model-2.safetensors","weight":"model-1.safetensors"})");
  }
  std::string refusal() const {
    try {
      static_cast<void>(read_weights(index));
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_format);
      EXPECT_THAT(error.what(), HasSubstr(index.string()));
      return error.what();
    }
    return "nothing thrown";
  }

  TemporaryFolder folder;
  fs::path index = folder.path() / "model.safetensors.index.json";
  TestRuntime test;
};

TEST_F(WeightIndex, AFolderOfSeveralFilesIsOneModel) {
  write_shards();
  Pair model{zeros(test.cpu, {2}), zeros(test.cpu, {2})};
  const LoadedWeights loaded = load_weights(model, folder.path(), LoadWeightsOptions{});
  EXPECT_THAT(model.weight.to_vector<float>(), ElementsAre(1, 1));
  EXPECT_THAT(model.bias.to_vector<float>(), ElementsAre(2, 2));
  EXPECT_EQ(loaded.metadata.at("total_size"), "16");
  EXPECT_EQ(loaded.metadata.at("format"), "pt");
}

TEST_F(WeightIndex, FilesOfPyTorchHaveAnIndexToo) {
  using testing::pickled_tensor;
  std::ofstream(folder.path() / "pytorch_model-1.bin", std::ios::binary) << testing::torch_zip(
      testing::pickled_dict(
          {{"weight", pickled_tensor({.storage_count = 2, .sizes = {2}, .strides = {1}})}}),
      {{"0", testing::values_bytes<float>({3, 4})}});
  std::ofstream(folder.path() / "pytorch_model.bin.index.json")
      << R"({"weight_map":{"weight":"pytorch_model-1.bin"}})";
  Pair model{zeros(test.cpu, {2}), zeros(test.cpu, {2})};
  load_weights(model, folder.path(), {.allow_missing = true});
  EXPECT_THAT(model.weight.to_vector<float>(), ElementsAre(3, 4));
}

TEST_F(WeightIndex, TheIndexDecidesWhichTensorsTakePart) {
  write_shards();
  write_index(R"({"bias":"model-2.safetensors"})");
  const WeightFile file = read_weights(index);
  ASSERT_EQ(file.entries().size(), 1U);
  EXPECT_EQ(file.entries()[0].name, "bias");
}

TEST_F(WeightIndex, AMissingFileIsNamed) {
  write_shards();
  fs::remove(folder.path() / "model-2.safetensors");
  EXPECT_THAT(refusal(),
              HasSubstr("its file 'model-2.safetensors' is missing, which holds 'bias' and 0 "
                        "more"));
}

TEST_F(WeightIndex, ATensorThatItsFileLacksIsNamed) {
  write_shards();
  write_index(R"({"bias":"model-1.safetensors"})");
  EXPECT_THAT(refusal(),
              HasSubstr("tensor 'bias' is not in 'model-1.safetensors', where the index has it"));
}

TEST_F(WeightIndex, FilesOutsideOfTheFolderAreRefused) {
  for (const char* const file : {"../model.safetensors", "/etc/passwd", "a/../../b", ""}) {
    write_index(fmt::format(R"({{"bias":"{}"}})", file));
    EXPECT_THAT(refusal(), HasSubstr("which is not inside its folder")) << file;
  }
}

TEST_F(WeightIndex, DamagedIndexesAreRefused) {
  std::ofstream(index) << "{";
  EXPECT_THAT(refusal(), HasSubstr("the index is not JSON"));
  std::ofstream(index) << R"({"weights":{}})";
  EXPECT_THAT(refusal(), HasSubstr("not a JSON object with an object 'weight_map'"));
  write_index(R"({"bias":3})");
  EXPECT_THAT(refusal(), HasSubstr("the index names no file for tensor 'bias'"));
}

// Each tensor is replaced before the next one is read: there is no second model.
TEST_F(WeightIndex, OneByOneNeedsNoMemoryForASecondModel) {
  constexpr std::int64_t kCount = 1 << 18;  // 1 MiB
  struct Eight {
    std::vector<Tensor> w;
    HEARTH_MODULE(Eight, w)
  };
  const Runtime small({.devices = {{.name = "cpu:0", .memory_budget_bytes = 12 << 20}}});
  const Device device = small.device("cpu:0");
  std::vector<NamedTensor> tensors;
  Eight model;
  for (int i = 0; i < 8; ++i) {
    tensors.push_back({fmt::format("w.{}", i), full(test.cpu, {kCount}, i)});
    model.w.push_back(zeros(device, {kCount}));
    EXPECT_EQ(sum(model.w.back()).item(), 0);
  }
  write_safetensors(folder.path() / "model.safetensors", tensors);
  load_weights(model, folder.path(), {.one_by_one = true});
  EXPECT_EQ(max(model.w[7]).item(), 7);
  EXPECT_LT(device.memory().peak_live_bytes, 12 << 20);
}

// A field of /proc/self/status, in bytes.
std::int64_t own_memory(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == field) {
      std::int64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  }
  return 0;
}

// Sparse files of zeros: 12 tensors of 32 MiB, and 32 of 8 MiB.
void write_large_shards(const fs::path& folder, std::string_view dtype) {
  std::string map;
  for (int shard = 0; shard < 4; ++shard) {
    std::string header;
    std::int64_t end = 0;
    for (int i = 0; i < 11; ++i) {
      const std::int64_t size = std::int64_t{i < 3 ? 32 : 8} << 20;
      header += fmt::format(R"({}"{}.{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                            header.empty() ? "{" : ",",
                            shard,
                            i,
                            dtype,
                            size / 4,
                            end,
                            end + size);
      map += fmt::format(R"({}"{}.{}":"{}.safetensors")", map.empty() ? "{" : ",", shard, i, shard);
      end += size;
    }
    header += "}";
    const fs::path file = folder / fmt::format("{}.safetensors", shard);
    std::ofstream(file, std::ios::binary)
        << testing::number_bytes(std::uint64_t{header.size()}) << header;
    fs::resize_file(file, 8 + header.size() + static_cast<std::uintmax_t>(end));
  }
  std::ofstream(folder / "model.safetensors.index.json") << R"({"weight_map":)" << map << "}}";
}

// Peak host memory of a load, beside the tensors' own: 640 MiB of weights on a device that computes
// in host memory.
TEST_F(WeightIndex, ALargeFolderNeedsLittleMemoryBesideItsWeights) {
  if (testing::kSanitizerTakesAddresses) {
    GTEST_SKIP() << "a sanitizer keeps freed memory";
  }
  write_large_shards(folder.path(), "F32");
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
  const std::int64_t before = own_memory("VmRSS:");
  const WeightFile file = read_weights(index);
  std::vector<Tensor> weights;
  for (const WeightFile::Entry& entry : file.entries()) {
    weights.push_back(file.tensor(entry.name, test.cpu));
  }
  test.cpu.sync();
  const std::int64_t beside = own_memory("VmHWM:") - before - test.cpu.memory().peak_reserved_bytes;
  EXPECT_EQ(weights.size(), 44U);
  EXPECT_GT(own_memory("VmHWM:") - before, std::int64_t{600} << 20) << "the peak is counted";
  EXPECT_LT(beside, std::int64_t{150} << 20);
  EXPECT_EQ(weights.back().element_count(), 2 << 20);
}

}  // namespace
}  // namespace hearth
