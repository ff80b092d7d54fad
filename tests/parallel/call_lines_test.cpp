// Every error in a training, on any thread, names a line of the program: that of its call, or that
// of its own loss or model.
#include <hearth/parallel/trainer.hpp>

#include "digits_run.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/modules/activations.hpp>
#include <hearth/modules/array_dataset.hpp>
#include <hearth/modules/csv.hpp>
#include <hearth/modules/sequential.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The failure, the line of the call, and the line of the last cause.
struct Row {
  const char* text;
  std::uint32_t line;
  std::uint32_t cause_line;
  std::function<void()> fails;
};

void expect_lines(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    try {
      row.fails();
      ADD_FAILURE() << row.text << ": nothing failed";
    } catch (const Exception& thrown) {
      EXPECT_THAT(thrown.what(), HasSubstr(row.text));
      EXPECT_EQ(thrown.error().location.line, row.line) << thrown.what();
      const Error* error = &thrown.error();
      while (error->cause && error->cause->location.line != 0) {
        EXPECT_THAT(error->location.file, EndsWith("call_lines_test.cpp")) << thrown.what();
        error = error->cause.get();
      }
      EXPECT_THAT(error->location.file, EndsWith("call_lines_test.cpp")) << thrown.what();
      EXPECT_EQ(error->location.line, row.cause_line) << thrown.what();
    }
  }
}

/// Rows of four numbers with three target numbers each.
ArrayDataset small_data() {
  return ArrayDataset(HostArray::from(std::vector<float>(48, 0.5F), {12, 4}),
                      HostArray::from(std::vector<float>(36, 1.F), {12, 3}));
}

class Unreadable final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 12; }
  [[nodiscard]] Examples read(std::span<const std::int64_t>) const override {
    throw std::runtime_error("the disk is gone");
  }
  [[nodiscard]] std::string name() const override { return "Unreadable"; }
};

class CallLines : public ::testing::Test {
 public:
  [[nodiscard]] Linear model(std::int64_t in = 4) {
    return Linear({.in = in, .out = 3}, device, generator);
  }
  [[nodiscard]] TrainerOptions options() const {
    return {.devices = {device},
            .epochs = 1,
            .batch_size = 6,
            .console = {.style = ConsoleStyle::silent}};
  }

  const Runtime runtime{cpu_devices(1)};
  const Device device = runtime.device("cpu:0");
  Generator generator{1};
  const ArrayDataset data = small_data();
};

TEST_F(CallLines, OfWhatATrainerFinds) {
  const TemporaryFolder folder;
  const auto whole = [](const Tensor& outputs, const Tensor&) { return outputs * 1; };
  const auto constant = [](const Tensor& outputs, const Tensor&) { return sum(outputs.detach()); };
  const auto nan = [](const Tensor& outputs, const Tensor&) {
    return sum(outputs) * std::numeric_limits<double>::quiet_NaN();
  };
  const auto broken = [](const Tensor& outputs, const Tensor& targets) {
    return sum(matmul(outputs, targets));
  };
  const std::uint32_t broken_line = __LINE__ - 2;
  const MeanSquaredLoss squares;
  const Unreadable unreadable;
  TrainerOptions judged = options();
  judged.metrics = {accuracy_metric()};
  const std::uint32_t metric_line = __LINE__ - 1;
  TrainerOptions kept = options();
  { std::ofstream(folder.path() / "file") << "x"; }
  kept.folder = folder.path() / "file" / "below";
  TrainerOptions watching = options();
  watching.watch = "acuracy";
  Trainer narrow(runtime, model(5), squares, options());
  Trainer layered(runtime, Sequential(model(5), Relu()), squares, options());
  Trainer of_whole(runtime, model(), whole, options());
  Trainer of_constant(runtime, model(), constant, options());
  Trainer of_nan(runtime, model(), nan, options());
  Trainer of_broken(runtime, model(), broken, options());
  Trainer plain(runtime, model(), squares, options());
  Trainer with_metric(runtime, model(), squares, judged);
  Trainer with_folder(runtime, model(), squares, kept);
  Trainer with_typo(runtime, model(), squares, watching);
  expect_lines({
      {"Linear", __LINE__, __LINE__, [&] { narrow.fit(data); }},
      {"Linear", __LINE__, __LINE__, [&] { layered.fit(data); }},
      {"Linear", __LINE__, __LINE__, [&] { static_cast<void>(narrow.evaluate(data)); }},
      {"one number", __LINE__, __LINE__, [&] { of_whole.fit(data); }},
      {"comes from none", __LINE__, __LINE__, [&] { of_constant.fit(data); }},
      {"is nan", __LINE__, __LINE__, [&] { of_nan.fit(data); }},
      {"matmul", broken_line, broken_line, [&] { of_broken.fit(data); }},
      {"could not be read", __LINE__, __LINE__, [&] { plain.fit(unreadable); }},
      {"accuracy", metric_line, metric_line, [&] { with_metric.fit(data, data); }},
      {"below", __LINE__, __LINE__, [&] { with_folder.fit(data); }},
      {"acuracy", __LINE__, __LINE__, [&] { with_typo.fit(data); }},
  });
}

TEST_F(CallLines, OfAMetricOfTheProgramsOwn) {
  const TemporaryFolder folder;
  const auto sum_of = [](const EvaluationMetric::Statistics& all) { return all[0]; };
  TrainerOptions options = this->options();
  options.metrics = {{.name = "x", .measure = nullptr, .value = sum_of}};
  const auto made = [&] { Trainer(runtime, model(), MeanSquaredLoss(), options); };
  const std::uint32_t made_line = __LINE__ - 1;
  const EvaluationMetric uneven{
      .name = "uneven",
      .measure = [size = std::make_shared<std::size_t>(0)](
                     const Tensor&,
                     const Tensor&) { return EvaluationMetric::Statistics(++*size, 1); },
      .value = sum_of};
  TrainerOptions with_uneven = this->options();
  with_uneven.metrics = {uneven};
  Trainer of_uneven(runtime, model(), MeanSquaredLoss(), with_uneven);
  const EvaluationMetric few{.name = "few",
                             .measure =
                                 [](const Tensor&, const Tensor&) {
                                   return EvaluationMetric::Statistics{1, 2};
                                 },
                             .value = sum_of,
                             .class_count = 3};
  TrainerOptions with_few = this->options();
  with_few.metrics = {few};
  with_few.folder = folder.path();
  Trainer of_few(runtime, model(), MeanSquaredLoss(), with_few);
  expect_lines({
      {"Trainer: the metric 'x' has no function measure: one of your own needs measure and value",
       made_line,
       made_line,
       made},
      {"uneven: a batch gave 1 statistics, another 2",
       __LINE__ + 2,
       __LINE__ + 1,
       [&] { static_cast<void>(of_uneven.evaluate(data)); }},
      {"few: 2 statistics are no table of 3 classes",
       __LINE__ + 2,
       __LINE__ + 1,
       [&] { of_few.fit(data, data); }},
      {"few: 1 statistics are no table of 3 classes",
       __LINE__ + 2,
       __LINE__ + 1,
       [&] { static_cast<void>(confusion_matrix_of(few, {1})); }},
  });
}

TEST_F(CallLines, OfATrainerThatOutlivesItsRuntime) {
  const TemporaryFolder folder;
  const Samples batch = random_samples(4, TinyNet::kSide, 1);
  std::optional<Trainer<Linear>> trainer;
  std::optional<DataParallel<TinyNet, Samples>> steps;
  std::optional<ShardedLoader> batches;
  {
    const Runtime ending(cpu_devices(1));
    const Device there = ending.device("cpu:0");
    TrainerOptions resumed = options();
    resumed.devices = {there};
    resumed.folder = folder.path();
    resumed.resume = true;
    trainer.emplace(
        ending, Linear({.in = 4, .out = 3}, there, generator), MeanSquaredLoss(), resumed);
    trainer->fit(data);
    steps.emplace(ending,
                  TinyNet(there, generator, DType::f32),
                  loss_in<TinyNet>(DType::f32),
                  DataParallelOptions{.devices = {there}});
    steps->step({batch});
    batches.emplace(data, ending.executor(), LoaderOptions{.batch_size = 6}, 1);
  }
  const char* const said = "Trainer: its Runtime has ended, and must outlive it";
  const char* const steps_said = "DataParallel: its Runtime has ended, and must outlive it";
  const auto count = [](const TinyNet&, WorkerContext&) { return 1; };
  expect_lines({
      {said, __LINE__, __LINE__, [&] { trainer->fit(data); }},
      {said, __LINE__, __LINE__, [&] { trainer->fit(data, data); }},
      {said, __LINE__, __LINE__, [&] { trainer->fit(*batches); }},
      {said, __LINE__, __LINE__, [&] { static_cast<void>(trainer->evaluate(data)); }},
      {said, __LINE__, __LINE__, [&] { static_cast<void>(trainer->evaluate(*batches)); }},
      {said, __LINE__, __LINE__, [&] { static_cast<void>(trainer->model()); }},
      {steps_said, __LINE__, __LINE__, [&] { steps->step({batch}); }},
      {steps_said, __LINE__, __LINE__, [&] { static_cast<void>(steps->evaluate(count)); }},
      {steps_said, __LINE__, __LINE__, [&] { static_cast<void>(steps->snapshot()); }},
      {steps_said, __LINE__, __LINE__, [&] { static_cast<void>(steps->take_model()); }},
      {steps_said, __LINE__, __LINE__, [&] { static_cast<void>(steps->devices()); }},
      {steps_said, __LINE__, __LINE__, [&] { static_cast<void>(steps->statistics()); }},
      {steps_said, __LINE__, __LINE__, [&] { steps->set_learning_rate(0.5); }},
      {steps_said, __LINE__, __LINE__, [&] { steps->save(folder.path() / "s.safetensors"); }},
      {steps_said, __LINE__, __LINE__, [&] { steps->load(folder.path() / "s.safetensors"); }},
      {"ShardedLoader: the Runtime", __LINE__, __LINE__, [&] { batches->set_world(2); }},
  });
}

TEST_F(CallLines, OfALossThatDoesNotFitItIsWhereItWasMade) {
  const MeanSquaredLoss loss;
  const std::uint32_t made = __LINE__ - 1;
  const ArrayDataset wide(HostArray::from(std::vector<float>(48, 0.5F), {12, 4}),
                          HostArray::from(std::vector<float>(24, 1.F), {12, 2}));
  Trainer trainer(runtime, model(), loss, options());
  expect_lines({{"MeanSquaredLoss: outputs are", made, made, [&] { trainer.fit(wide); }}});
}

/// Returns three examples for every request.
class ThreeExamples final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 12; }
  [[nodiscard]] Examples read(std::span<const std::int64_t>) const override {
    return {HostArray(DType::f32, {3, 4}), HostArray(DType::f32, {3, 3})};
  }
  [[nodiscard]] std::string name() const override { return "ThreeExamples"; }
};

class NoFile final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 12; }
  [[nodiscard]] Examples read(std::span<const std::int64_t>) const override {
    static_cast<void>(read_csv("/there/is/no.csv"));
    return {};
  }
};

// As if the program had called the function itself.
TEST_F(CallLines, OfTheProgramsOwnMistakesTheClassIsKept) {
  const auto broken = [](const Tensor& outputs, const Tensor& targets) {
    return sum(matmul(outputs, targets));
  };
  const MeanSquaredLoss squares;
  TrainerOptions with_labels = options();
  with_labels.metrics = {accuracy_metric()};
  const ArrayDataset floats(HostArray::from(std::vector<float>(48, 0.5F), {12, 4}),
                            HostArray::from(std::vector<float>(12, 1.F), {12}));
  const auto whole = [](const Tensor& outputs, const Tensor& targets) {
    return mean(square(sum(outputs, 1) - targets));
  };
  TrainerOptions with_many = options();
  with_many.metrics = {top_k_metric(5)};
  Trainer of_broken(runtime, model(), broken, options());
  Trainer of_labels(runtime, model(), whole, with_labels);
  Trainer of_many(runtime, model(), whole, with_many);
  Trainer plain(runtime, model(), squares, options());
  try {
    of_broken.fit(data);
    ADD_FAILURE();
  } catch (const ShapeError& error) {
    EXPECT_EQ(error.error().op, "matmul");
    EXPECT_THAT(error.error().text, HasSubstr("f32[6, 3]"));
    EXPECT_THAT(error.error().text, EndsWith(" (worker 0 on cpu:0)"));
  }
  try {
    plain.fit(ThreeExamples());
    ADD_FAILURE();
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.error().text,
                HasSubstr("batch 0 of epoch 0 of ThreeExamples could not be "
                          "read: ThreeExamples::read() of 6"));
  }
  EXPECT_THROW(of_labels.fit(floats, floats), DtypeError);
  EXPECT_THROW(of_many.fit(floats, floats), ArgumentError);
  EXPECT_THROW(plain.fit(NoFile()), FileError);
  EXPECT_THROW(plain.parallel().set_learning_rate(-1), ArgumentError);
  EXPECT_THROW(
      static_cast<void>(plain.parallel().evaluate([](const Linear& linear, WorkerContext& context) {
        return linear.forward(ones(context.device, {2, 9})).item();
      })),
      ShapeError);
}

TEST_F(CallLines, OfATrainersOptionsItIsTheTrainerThatSpeaks) {
  const auto refusal_of = [&](auto change) {
    TrainerOptions changed = options();
    change(changed);
    try {
      Trainer trainer(runtime, model(), MeanSquaredLoss(), changed);
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.error().op, "Trainer");
      return error.error().text;
    }
    return std::string("nothing was refused");
  };
  EXPECT_EQ(refusal_of([](TrainerOptions& o) { o.clip = {.max_norm = -1}; }),
            "Trainer: max_norm is -1, but must be above 0 and finite");
  EXPECT_THAT(refusal_of([](TrainerOptions& o) { o.devices = {Device()}; }),
              StartsWith("Trainer: a device is empty"));
  EXPECT_THAT(refusal_of([](TrainerOptions& o) {
                o.optimizer = Adam::Config{.groups = {{.match = "nothing.*", .rate_factor = 2}}};
              }),
              StartsWith("Trainer: "));
}

TEST_F(CallLines, OfALossThatIsAFunctionOfHearthsOwn) {
  const ArrayDataset classes(
      HostArray::from(std::vector<float>(48, 0.5F), {12, 4}),
      HostArray::from(std::vector<std::int64_t>{0, 1, 2, 0, 1, 9, 0, 1, 2, 0, 1, 2}, {12}));
  const ArrayDataset wide(HostArray::from(std::vector<float>(48, 0.5F), {12, 4}),
                          HostArray::from(std::vector<float>(24, 1.F), {12, 2}));
  Trainer of_classes(runtime, model(), cross_entropy, options());
  Trainer of_squares(runtime, model(), mse_loss, options());
  expect_lines({
      {"9", __LINE__, __LINE__, [&] { of_classes.fit(classes); }},
      {"mse_loss", __LINE__, __LINE__, [&] { of_squares.fit(wide); }},
  });
}

TEST_F(CallLines, OfWhatDataParallelFinds) {
  const TemporaryFolder folder;
  const auto missing = folder.path() / "none.safetensors";
  const auto below = folder.path() / "file" / "w.safetensors";
  { std::ofstream(folder.path() / "file") << "x"; }
  TinyNet net(device, generator, DType::f32);
  const Samples batch = random_samples(4, TinyNet::kSide, 1);
  Samples foreign = batch;
  foreign.classes[2] = 77;
  const auto loss = [](const TinyNet& model, Samples& shard, WorkerContext& context) {
    if (shard.classes.front() == -1) {
      throw std::runtime_error("of the program's own");
    }
    const Tensor pixels =
        Tensor::from(context.device, shard.pixels, {shard.size, 16}).to(DType::f32);
    const Tensor classes = Tensor::from(context.device, shard.classes, {shard.size});
    return cross_entropy(model.forward(pixels), classes);
  };
  const std::uint32_t loss_line = __LINE__ - 2;
  Samples thrown = batch;
  thrown.classes.front() = -1;
  DataParallel<TinyNet, Samples> steps(runtime, net, loss, {.devices = {device}});
  DataParallel<TinyNet, Samples> ended(runtime, net, loss, {.devices = {device}});
  static_cast<void>(ended.take_model());
  const std::vector<Samples> two{batch, batch};
  const auto throws = [](const TinyNet&, WorkerContext&) -> int {
    throw std::runtime_error("no good");
  };
  const auto spoils = [](TinyNet&, Optimizer&) { throw std::runtime_error("no good"); };
  expect_lines({
      {"2 shards for 1", __LINE__, __LINE__, [&] { steps.step(two); }},
      {"the batch is empty", __LINE__, __LINE__, [&] { steps.step({cut(batch, 0, 0)}); }},
      {"of the program's own", __LINE__, __LINE__, [&] { steps.step({thrown}); }},
      {"class", loss_line, loss_line, [&] { steps.step({foreign}); }},
      {"was taken", __LINE__, __LINE__, [&] { ended.step({batch}); }},
      {"was taken", __LINE__, __LINE__, [&] { static_cast<void>(ended.snapshot()); }},
      {"no good", __LINE__, __LINE__, [&] { static_cast<void>(steps.evaluate(throws)); }},
      {"set average_decay", __LINE__, __LINE__, [&] { static_cast<void>(steps.averaged()); }},
      {"no good", __LINE__, __LINE__, [&] { steps.update_replicas(spoils); }},
      {"learning_rate", __LINE__, __LINE__, [&] { steps.set_learning_rate(-1); }},
      {"none.safetensors", __LINE__, __LINE__, [&] { steps.load(missing); }},
      {"cannot write", __LINE__, __LINE__, [&] { steps.save(folder.path()); }},
      {"cannot look at it", __LINE__, __LINE__, [&] { steps.save_weights(below); }},
  });
}

// Late errors of a device, in ops of the trainer itself.
TEST_F(CallLines, OfADeviceThatFailsInTheTrainersOwnOps) {
  int failures = 0;
  for (std::uint64_t submit = 40; submit < 240; submit += 5) {
    const Runtime failing(
        {.devices = {{.name = "sim:0", .faults = FaultPlan{.failing_submits = {submit}}}}});
    const Device sim = failing.device("sim:0");
    TinyNet net(sim, generator, DType::f32);
    DataParallel<TinyNet, Samples> steps(
        failing, net, loss_in<TinyNet>(DType::f32), {.devices = {sim}});
    try {
      for (int i = 0; i < 3; ++i) {
        steps.step({random_samples(4, TinyNet::kSide, 1)});
      }
      static_cast<void>(weights_of(steps.snapshot()));
    } catch (const Exception& thrown) {
      ++failures;
      EXPECT_THAT(
          thrown.error().location.file,
          ::testing::AnyOf(EndsWith("call_lines_test.cpp"), EndsWith("training_support.hpp")))
          << submit << ": " << thrown.what();
    }
  }
  EXPECT_GT(failures, 8);
}

struct WithBuffer {
  Linear inner;
  Buffer scale;
  HEARTH_MODULE(WithBuffer, inner, scale)
};

TEST_F(CallLines, OfAModelThatLacksATensor) {
  const MeanSquaredLoss squares;
  using Model = WithBuffer;
  const Model whole{.inner = model(), .scale = Buffer(ones(device, {1}))};
  Model lacking = whole;
  lacking.scale = Buffer();
  Linear moved = model();
  const Linear taken = std::move(moved);
  const auto loss = [](const auto&, Batch&, WorkerContext&) { return Tensor(); };
  const DataParallelOptions parallel{.devices = {device}};
  TrainerOptions averaging = options();
  averaging.average_decay = 1.5;
  // NOLINTBEGIN(bugprone-use-after-move): what happens then is the subject
  expect_lines({
      {"Trainer: the model's 'weight' is empty: the model was moved from",
       __LINE__ + 2,
       __LINE__ + 1,
       [&] { const Trainer trainer(runtime, moved, squares, options()); }},
      {"DataParallel: the model's 'weight' is empty: the model was moved from",
       __LINE__ + 2,
       __LINE__ + 1,
       [&] { const DataParallel<Linear, Batch> trainer(runtime, moved, loss, parallel); }},
      {"DataParallel: the model's 'scale' is empty: the model was moved from",
       __LINE__ + 2,
       __LINE__ + 1,
       [&] { const DataParallel<Model, Batch> trainer(runtime, lacking, loss, parallel); }},
      {"Trainer: the decay is 1.5, but must be 0 or more and below 1",
       __LINE__ + 2,
       __LINE__ + 1,
       [&] { const Trainer trainer(runtime, taken, squares, averaging); }},
  });
  // NOLINTEND(bugprone-use-after-move)
}

}  // namespace
}  // namespace hearth
