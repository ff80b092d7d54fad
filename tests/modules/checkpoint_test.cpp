#include <hearth/modules/checkpoint.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/modules/linear.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;

struct Classifier {
  Linear inner, outer;
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return outer.forward(relu(inner.forward(x)));
  }
  HEARTH_MODULE(Classifier, inner, outer)
};

struct Half {
  Linear inner;
  HEARTH_MODULE(Half, inner)
};

struct One {
  Tensor p;
  HEARTH_MODULE(One, p)
};

class Checkpoint : public ::testing::Test {
 protected:
  [[nodiscard]] Classifier make(const Device& device, std::uint64_t seed, std::int64_t width = 8) {
    Generator generator(seed);
    return {.inner = Linear({.in = 4, .out = width}, device, generator),
            .outer = Linear({.in = width, .out = 3}, device, generator)};
  }
  static void expect_equal(const Classifier& a, const Classifier& b) {
    const std::vector<NamedTensor> left = named_tensors(a);
    const std::vector<NamedTensor> right = named_tensors(b);
    for (std::size_t i = 0; i < left.size(); ++i) {
      EXPECT_EQ(left[i].tensor.to_vector<float>(), right[i].tensor.to_vector<float>())
          << left[i].name;
    }
  }

  TestRuntime test;
  TemporaryFolder folder;
};

TEST_F(Checkpoint, WeightsComeBackOnAnotherDevice) {
  const Classifier saved = make(test.cpu, 1);
  save_weights(saved, folder.path() / "a" / "b", {{"epoch", "3"}});
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "a" / "b" / "model.safetensors"));
  Classifier loaded = make(test.reference, 2);
  EXPECT_EQ(load_weights(loaded, folder.path() / "a" / "b").at("epoch"), "3");
  EXPECT_EQ(loaded.inner.weight.device().name(), "reference:0");
  expect_equal(saved, loaded);
}

TEST(CheckpointLog, AtDebugASaveAndALoadAreTold) {
  const TemporaryFolder folder;
  ::setenv("HEARTH_LOG_LEVEL", "debug", 1);
  ::testing::internal::CaptureStderr();
  {
    const Runtime runtime({.devices = {{.name = "cpu:0"}}});
    ::unsetenv("HEARTH_LOG_LEVEL");
    Generator generator(1);
    Half half{Linear({.in = 4, .out = 2}, runtime.device("cpu:0"), generator)};
    save_weights(half, folder.path());
    load_weights(half, folder.path());
    Optimizer optimizer = Sgd({});
    save_training(half, optimizer, {}, folder.path() / "run.safetensors");
    static_cast<void>(load_training(half, optimizer, folder.path() / "run.safetensors"));
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string name = (folder.path() / "model.safetensors").string();
  EXPECT_THAT(log, HasSubstr("saved 2 tensors, 40 bytes, in " + name + "\n"));
  EXPECT_THAT(log, HasSubstr("loaded 2 tensors, 40 bytes, from " + name + " to cpu:0\n"));
  EXPECT_THAT(log, HasSubstr("run.safetensors to cpu:0\n"));
}

// As another program saves it again, with metadata, but with its members in another order.
TEST(CheckpointLog, AtDebugALoadTellsThatTheChecksumIsOfAnotherFile) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "model.safetensors";
  const std::string header = R"({"__metadata__":{"hearth.xxh3_64":"0123456789abcdef"},)"
                             R"("p":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::ofstream(file, std::ios::binary)
      << static_cast<char>(header.size()) << std::string(7, '\0') << header << "\x01\x02\x03\x04";
  ::setenv("HEARTH_LOG_LEVEL", "debug", 1);
  ::testing::internal::CaptureStderr();
  {
    const Runtime runtime({.devices = {{.name = "cpu:0"}}});
    ::unsetenv("HEARTH_LOG_LEVEL");
    One one{zeros(runtime.device("cpu:0"), {1})};
    load_weights(one, file);
  }
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("loaded 1 tensors, 4 bytes, from " + file.string() +
                " to cpu:0; another program wrote it: its hearth.xxh3_64 was not compared\n"));
}

TEST_F(Checkpoint, ANameThatEndsInSafetensorsIsAFile) {
  const auto path = folder.path() / "weights.safetensors";
  const Classifier saved = make(test.cpu, 1);
  save_weights(saved, path);
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
  Classifier loaded = make(test.cpu, 2);
  load_weights(loaded, path);
  expect_equal(saved, loaded);
}

TEST_F(Checkpoint, AFileIsReadWhateverItIsCalled) {
  const Classifier saved = make(test.cpu, 1);
  save_weights(saved, folder.path() / "weights.safetensors");
  for (const char* const name : {"weights", "weights.bin", "weights.pt", "run.1", "x.y.z"}) {
    const auto path = folder.path() / name;
    std::filesystem::copy_file(folder.path() / "weights.safetensors", path);
    EXPECT_EQ(weights_file(path), path);
    Classifier loaded = make(test.cpu, 2);
    load_weights(loaded, path);
    expect_equal(saved, loaded);
  }
}

TEST_F(Checkpoint, AnyOtherNameIsAFolderDotsAndAll) {
  const Classifier saved = make(test.cpu, 1);
  std::filesystem::create_directories(folder.path() / "old.bin");
  for (const char* const name : {"plain", "run.1", "epoch-0.5", ".hidden", "new.bin/", "old.bin"}) {
    const auto path = folder.path() / name;
    save_weights(saved, path);
    EXPECT_TRUE(std::filesystem::is_regular_file(path / "model.safetensors")) << name;
    Classifier loaded = make(test.cpu, 2);
    load_weights(loaded, path);
    expect_equal(saved, loaded);
  }
}

TEST_F(Checkpoint, ANameOfAnotherProgramsWeightsIsRefusedWithTheRightOne) {
  const Classifier model = make(test.cpu, 1);
  const auto refusal = [&](const std::filesystem::path& path) -> std::string {
    try {
      save_weights(model, path);
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "saved";
  };
  for (const char* const ending :
       {"bin", "pt", "pth", "ckpt", "h5", "npz", "onnx", "gguf", "PT", "SafeTensors"}) {
    const auto path = folder.path() / (std::string("w.") + ending);
    EXPECT_THAT(refusal(path),
                HasSubstr("save_weights: '" + path.string() +
                          "' has another ending: weights go into a file whose name ends in "
                          ".safetensors, or into a folder, as model.safetensors: write '" +
                          (folder.path() / "w.safetensors").string() + "'"));
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  for (const char* const name : {"weights", "run.1"}) {
    const auto path = folder.path() / name;
    std::ofstream(path) << "mine";
    EXPECT_THAT(refusal(path),
                HasSubstr("'" + path.string() +
                          "' is a file of another name: weights go into a file whose name ends in "
                          ".safetensors, or into a folder, as model.safetensors: write '" +
                          path.string() + ".safetensors'"));
    EXPECT_EQ(std::filesystem::file_size(path), 4U);
  }
}

TEST_F(Checkpoint, AFileThatIsNoneOrIsMissingIsNamedAsTheProgramDid) {
  Classifier model = make(test.cpu, 1);
  const auto refusal = [&](const char* name) -> std::string {
    try {
      load_weights(model, folder.path() / name);
    } catch (const FileError& error) {
      return error.what();
    }
    return "loaded";
  };
  EXPECT_THAT(refusal("w.pt"), HasSubstr("w.pt: cannot open"));
  EXPECT_THAT(refusal("w"), HasSubstr("w/model.safetensors: cannot open"));
  std::ofstream(folder.path() / "zip.pt") << "PK\x03\x04 and what a pickle has";
  EXPECT_THAT(refusal("zip.pt"), HasSubstr("zip.pt: no zip archive, or a truncated one"));
}

struct Renamed {
  Linear first, last;
  Tensor scale;
  HEARTH_MODULE(Renamed, first, last, scale)
};

TEST_F(Checkpoint, AFileOfOtherNamesGivesAPart) {
  const auto path = folder.path() / "weights.safetensors";
  const Classifier saved = make(test.cpu, 1);
  save_weights(saved, path, {{"epoch", "3"}});
  Generator generator(2);
  Renamed model{.first = Linear({.in = 4, .out = 8}, test.cpu, generator),
                .last = Linear({.in = 8, .out = 3, .bias = false}, test.cpu, generator),
                .scale = ones(test.cpu, {2})};
  const LoadedWeights loaded =
      load_weights(model,
                   path,
                   {.renames = {{"^in(ner)", "f$1"}, {"fner", "first"}, {"^outer", "last"}},
                    .allow_missing = true,
                    .allow_unused = true});
  EXPECT_EQ(loaded.metadata.at("epoch"), "3");
  EXPECT_EQ(loaded.missing, std::vector<std::string>{"scale"});
  EXPECT_EQ(loaded.unused, std::vector<std::string>{"outer.bias"});
  EXPECT_EQ(model.first.weight.to_vector<float>(), saved.inner.weight.to_vector<float>());
  EXPECT_EQ(model.last.weight.to_vector<float>(), saved.outer.weight.to_vector<float>());
  EXPECT_EQ(model.scale.to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST_F(Checkpoint, WhatMayNotDifferIsRefused) {
  const auto path = folder.path() / "weights.safetensors";
  save_weights(make(test.cpu, 1), path);
  Classifier model = make(test.cpu, 2);
  const std::vector<float> before = model.inner.weight.to_vector<float>();
  const auto refusal = [&](auto& to, const LoadWeightsOptions& options) -> std::string {
    try {
      load_weights(to, path, options);
    } catch (const Exception& error) {
      return error.what();
    }
    return "loaded";
  };
  EXPECT_THAT(refusal(model, {.renames = {{"inner", "outer"}}}),
              HasSubstr("'inner.weight' and 'outer.weight' are both renamed to 'outer.weight'"));
  EXPECT_THAT(refusal(model, {.renames = {{"inner", "first"}}, .allow_unused = true}),
              HasSubstr("tensor 'inner.weight' is missing: expected f32[8, 4]"));
  EXPECT_THAT(refusal(model, {.renames = {{"inner", "first"}}, .allow_missing = true}),
              HasSubstr("tensor 'inner.weight' (f32[8, 4]) belongs to no parameter"));
  EXPECT_THAT(
      refusal(model, {.renames = {{"er\\.", "est."}}, .allow_missing = true, .allow_unused = true}),
      HasSubstr("none of its 4 tensors is one of the model's"));
  EXPECT_THAT(refusal(model, {.renames = {{"inner(", ""}}}),
              HasSubstr("the pattern 'inner(' is no regular expression"));
  EXPECT_THAT(refusal(model,
                      {.renames = {{"^outer.bias", "outer.weight.x"},
                                   {"^inner.bias", "outer.bias"},
                                   {"outer.weight.x", "inner.bias"}}}),
              HasSubstr("tensor 'outer.bias' is f32[3]: expected f32[8] of 'inner.bias'"));
  EXPECT_EQ(model.inner.weight.to_vector<float>(), before);
}

TEST_F(Checkpoint, FloatsTakeTheModelsTypeWhenTold) {
  const auto path = folder.path() / "weights.safetensors";
  const Classifier saved = make(test.cpu, 1);
  save_weights(saved, path);
  Classifier half = to_dtype(make(test.cpu, 2), DType::bf16);
  EXPECT_THROW(load_weights(half, path), FileError);
  load_weights(half, path, {.cast = true});
  EXPECT_EQ(half.inner.weight.dtype(), DType::bf16);
  EXPECT_EQ(half.inner.weight.to(DType::f32).to_vector<float>(),
            saved.inner.weight.to(DType::bf16).to(DType::f32).to_vector<float>());
}

TEST_F(Checkpoint, IntegersAreNotConvertedToFloats) {
  const auto path = folder.path() / "weights.safetensors";
  Classifier whole = make(test.cpu, 1);
  whole.inner.weight = ones(test.cpu, whole.inner.weight.shape(), DType::i32);
  save_weights(whole, path);
  Classifier model = make(test.cpu, 2);
  EXPECT_THROW(load_weights(model, path, {.cast = true}), FileError);
}

TEST_F(Checkpoint, AModelThatDoesNotFitStaysAsItWas) {
  const auto path = folder.path() / "weights.safetensors";
  save_weights(make(test.cpu, 1), path);
  const auto expect_refused = [&](auto& model, const char* text) {
    try {
      load_weights(model, path);
      ADD_FAILURE() << "loaded: " << text;
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_format);
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  Classifier wider = make(test.cpu, 2, 9);
  const Classifier before = wider;
  expect_refused(wider, "tensor 'inner.weight' is f32[8, 4]: expected f32[9, 4]");
  expect_equal(wider, before);
  Classifier other_type = to_dtype(make(test.cpu, 2), DType::f64);
  expect_refused(other_type, "tensor 'inner.weight' is f32[8, 4]: expected f64[8, 4]");
  Sequential other_names(make(test.cpu, 2).inner);
  expect_refused(other_names, "tensor '0.weight' is missing: expected f32[8, 4]");
  Half half{make(test.cpu, 2).inner};
  expect_refused(half, "belongs to no parameter of the model");
}

TEST_F(Checkpoint, ATrainingRunGoesOnAsIfItHadNotStopped) {
  const Tensor x = ones(test.cpu, {2, 4});
  const Tensor y = Tensor::from(test.cpu, {std::int64_t{0}, std::int64_t{2}}, {2});
  const auto train = [&](Classifier& model, Optimizer& optimizer, int steps) {
    for (int i = 0; i < steps; ++i) {
      auto [loss, gradients] =
          value_and_grad(model, [&](const auto& m) { return cross_entropy(m.forward(x), y); });
      optimizer.step(model, std::move(gradients)).get();
    }
  };
  Classifier model = make(test.cpu, 1);
  Optimizer optimizer = Adam({.learning_rate = 0.05});
  train(model, optimizer, 3);
  save_weights(model, folder.path() / "run");
  save_weights(optimizer, folder.path() / "optimizer.safetensors");
  const std::int64_t steps = optimizer.step_count();
  train(model, optimizer, 2);

  Classifier resumed = make(test.cpu, 7);
  Optimizer second = Adam({.learning_rate = 0.05});
  load_weights(resumed, folder.path() / "run");
  second.prepare(resumed);
  load_weights(second, folder.path() / "optimizer.safetensors");
  second.set_step_count(steps);
  train(resumed, second, 2);
  expect_equal(resumed, model);
}

TEST_F(Checkpoint, AnOptimizerKeepsTheStateThatIsLoadedAfterItsFirstStepHasFailed) {
  const Tensor x = ones(test.cpu, {2, 4});
  const auto step = [&](Classifier& model, Optimizer& optimizer, std::int64_t label) {
    const Tensor y = Tensor::from(test.cpu, {std::int64_t{0}, label}, {2});
    auto [loss, gradients] =
        value_and_grad(model, [&](const auto& m) { return cross_entropy(m.forward(x), y); });
    return optimizer.step(model, std::move(gradients)).wait().has_value();
  };
  Classifier model = make(test.cpu, 1);
  Optimizer saved = Adam({});
  ASSERT_TRUE(step(model, saved, 2));
  save_weights(saved, folder.path() / "optimizer.safetensors");
  const Classifier after_one = fork(model, test.cpu);
  ASSERT_TRUE(step(model, saved, 1));

  Classifier resumed = fork(after_one, test.cpu);
  Optimizer second = Adam({});
  ASSERT_FALSE(step(resumed, second, 9)) << "3 classes";
  load_weights(second, folder.path() / "optimizer.safetensors");
  second.set_step_count(1);
  EXPECT_EQ(named_tensors(second).size(), named_tensors(saved).size());
  ASSERT_TRUE(step(resumed, second, 1));
  expect_equal(resumed, model);
}

}  // namespace
}  // namespace hearth
