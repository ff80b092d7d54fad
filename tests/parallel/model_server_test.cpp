// ModelServer with real threads: each request gets the answer that it gets alone, whatever runs
// beside it.
#include <hearth/parallel/model_server.hpp>

#include "training_support.hpp"

#include "tests/support/tolerance.hpp"

#include <hearth/parallel/batch_rows.hpp>
#include <hearth/runtime/base/cores.hpp>

#include <atomic>
#include <cmath>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct Net {
  Linear first, second;

  Net(const Device& device, Generator& generator)
      : first({.in = 40, .out = 96}, device, generator),
        second({.in = 96, .out = 10}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return second.forward(relu(first.forward(x)));
  }
  HEARTH_MODULE(Net, first, second)
};

/// Its rows depend on one another.
struct Centred {
  Linear layer;

  Centred(const Device& device, Generator& generator)
      : layer({.in = 40, .out = 10}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    const Tensor y = layer.forward(x);
    return y - mean(y, {0}, {.keep_dims = true});
  }
  HEARTH_MODULE(Centred, layer)
};

/// Two inputs, two outputs; the second output has no rows.
struct Pair {
  Linear layer;

  Pair(const Device& device, Generator& generator)
      : layer({.in = 4, .out = 3}, device, generator) {}
  [[nodiscard]] std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& y) const {
    return {layer.forward(x) + y, x * 2.0};
  }
  HEARTH_MODULE(Pair, layer)
};

std::vector<float> input(int number, std::size_t size = 40) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((static_cast<int>(i) * 7 + number * 13) % 29) / 29;
  }
  return values;
}

template <class Model>
Frozen<Model> frozen(const Device& device, std::uint64_t seed = 1) {
  Generator generator(seed);
  return freeze(Model(device, generator));
}

template <class Model>
std::vector<float> alone(const Frozen<Model>& model, int number) {
  return model->forward(Tensor::from(model.device(), input(number), {1, 40}))
      .template to_vector<float>();
}

bool is_near(const std::vector<float>& got, const std::vector<float>& want) {
  const Tolerance allowed = tolerance(testing::Precision::sum, DType::f32, 96);
  return std::ranges::equal(got, want, [&](float a, float b) { return allowed.accepts(a, b); });
}

/// Holds the forward pass of a server until it opens.
struct Door {
  std::atomic<bool> is_open{false};
  std::atomic<int> waiting{0};

  void pass() {
    ++waiting;
    is_open.wait(false);
  }
  void open() {
    is_open = true;
    is_open.notify_all();
  }
  void wait_for(int count) const {
    while (waiting < count) {
      std::this_thread::yield();
    }
  }
};

/// A server whose forward passes wait at a door.
ModelServer<Net> held_server(const Runtime& runtime,
                             const Frozen<Net>& model,
                             Door& door,
                             ServerOptions options = {}) {
  return ModelServer<Net>(
      runtime, model, std::move(options), [&door](const Net& net, std::span<const Tensor> in) {
        door.pass();
        return std::vector<Tensor>{net.forward(in[0])};
      });
}

TEST(ModelServer, TenLinesServe) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  ModelServer server(runtime, model);
  const Answer answer = server.answer({{input(3), {1, 40}}});
  EXPECT_EQ(answer.outputs.at(0).values<float>(), alone(model, 3));
  EXPECT_EQ(answer.outputs.at(0).shape, (Shape{1, 10}));
  EXPECT_EQ(answer.version, 1U);
}

TEST(ModelServer, ManyClientsGetTheAnswersTheyGetAlone) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  std::vector<std::vector<float>> expected;
  expected.reserve(8);
  for (int number = 0; number < 8; ++number) {
    expected.push_back(alone(model, number));
  }
  ModelServer server(runtime, model);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> clients;
    clients.reserve(16);
    for (int client = 0; client < 16; ++client) {
      clients.emplace_back([&, client] {
        for (int i = 0; i < 100; ++i) {
          const int number = (client + i) % 8;
          const auto got = server.answer({{input(number), {1, 40}}}).outputs.at(0).values<float>();
          wrong += is_near(got, expected[static_cast<std::size_t>(number)]) ? 0 : 1;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  const ServerStatistics statistics = server.statistics();
  EXPECT_EQ(statistics.answered, 1600U);
  EXPECT_EQ(statistics.rows, 1600U);
  EXPECT_LT(statistics.batches, 1600U) << "no two requests shared a batch";
}

TEST(ModelServer, WhatWaitsFormsOneBatchOfTheLadder) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  Door door;
  auto server = held_server(runtime, model, door);
  std::vector<Pending<Answer>> answers;
  answers.push_back(server.ask({{input(0), {1, 40}}}));
  door.wait_for(1);
  for (int number = 1; number <= 5; ++number) {
    answers.push_back(server.ask({{input(number), {1, 40}}}));
  }
  door.open();
  for (int number = 0; number <= 5; ++number) {
    EXPECT_TRUE(is_near(answers[static_cast<std::size_t>(number)].get().outputs[0].values<float>(),
                        alone(model, number)));
  }
  const ServerStatistics statistics = server.statistics();
  EXPECT_EQ(statistics.batches, 2U);
  EXPECT_EQ(statistics.padded_rows, 3U);  // five rows run as eight
  EXPECT_EQ(statistics.proofs, 1U);
}

TEST(ModelServer, RowsThatDependOnOneAnotherGetBatchesOfOne) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Centred> model = frozen<Centred>(runtime.device());
  Door door;
  ModelServer<Centred> server(
      runtime, model, {}, [&](const Centred& net, std::span<const Tensor> in) {
        door.pass();
        return std::vector<Tensor>{net.forward(in[0])};
      });
  std::vector<Pending<Answer>> answers;
  for (int number = 0; number < 12; ++number) {
    answers.push_back(server.ask({{input(number), {1, 40}}}));
    door.wait_for(1);
  }
  door.open();
  for (Pending<Answer>& answer : answers) {
    EXPECT_EQ(answer.get().outputs[0].values<float>(), std::vector<float>(10, 0.0F));
  }
  EXPECT_EQ(server.statistics().proofs, 1U);
  const std::uint64_t before = server.statistics().batches;
  std::vector<Pending<Answer>> more;
  more.reserve(12);
  for (int number = 0; number < 12; ++number) {
    more.push_back(server.ask({{input(number), {1, 40}}}));
  }
  for (Pending<Answer>& answer : more) {
    EXPECT_EQ(answer.get().outputs[0].values<float>(), std::vector<float>(10, 0.0F));
  }
  EXPECT_EQ(server.statistics().batches, before + 12);
}

// As a file whose graph names the number of rows: a batch fails, and a request by itself does not.
TEST(ModelServer, AModelForOneRowGetsBatchesOfOne) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  Door door;
  std::atomic<int> failures{0};
  ModelServer<Net> server(runtime, model, {}, [&](const Net& net, std::span<const Tensor> in) {
    door.pass();
    failures += in[0].shape()[0] == 1 ? 0 : 1;
    return std::vector<Tensor>{net.forward(reshape(in[0], {1, 40}))};
  });
  for (int round = 0; round < 3; ++round) {
    std::vector<Pending<Answer>> answers;
    for (int number = 0; number < 12; ++number) {
      answers.push_back(server.ask({{input(number), {1, 40}}}));
      door.wait_for(1);
    }
    door.open();
    for (int number = 0; number < 12; ++number) {
      const Answer answer = std::move(answers[static_cast<std::size_t>(number)]).get();
      EXPECT_EQ(answer.outputs[0].values<float>(), alone(model, number));
    }
  }
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(server.statistics().proofs, 1U);
  EXPECT_EQ(server.statistics().failed, 0U);
}

// A state whose axis 0 counts no rows, and a number.
TEST(ModelServer, InputsWithoutRowsRunOneByOne) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  ModelServer<Net> server(runtime,
                          model,
                          {.max_batch = 2, .proof = RowProof::no_rows},
                          [](const Net& /*net*/, std::span<const Tensor> in) {
                            return std::vector<Tensor>{in[0] * in[1], sum(in[0])};
                          });
  std::vector<Pending<Answer>> answers;
  for (int number = 0; number < 12; ++number) {
    const std::int64_t rows = 3 + number % 4;
    answers.push_back(server.ask({{input(number, static_cast<std::size_t>(rows) * 2), {rows, 2}},
                                  {std::vector<float>{2}, Shape{}}}));
  }
  for (int number = 0; number < 12; ++number) {
    const std::int64_t rows = 3 + number % 4;
    const Answer answer = std::move(answers[static_cast<std::size_t>(number)]).get();
    std::vector<float> twice = input(number, static_cast<std::size_t>(rows) * 2);
    std::ranges::for_each(twice, [](float& value) { value *= 2; });
    EXPECT_EQ(answer.outputs[0].shape, (Shape{rows, 2}));
    EXPECT_EQ(answer.outputs[0].values<float>(), twice);
    EXPECT_EQ(answer.outputs[1].shape, Shape());
  }
  EXPECT_EQ(server.statistics().batches, 12U);
  EXPECT_EQ(server.statistics().proofs, 0U);
  EXPECT_THROW(ModelServer<Net>(runtime, model, {.exact_rows = true, .proof = RowProof::no_rows}),
               ArgumentError);
}

TEST(ModelServer, SeveralInputsOutputsAndRowsOfARequest) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Pair> model = frozen<Pair>(runtime.device());
  ModelServer server(runtime, model);
  const std::vector<float> x = input(1, 8);
  const std::vector<float> y = input(2, 6);
  const auto [sum, twice] = model->forward(Tensor::from(runtime.device(), x, {2, 4}),
                                           Tensor::from(runtime.device(), y, {2, 3}));
  const std::vector<float> sums = sum.to_vector<float>();
  std::vector<Pending<Answer>> answers;
  answers.reserve(20);
  for (int i = 0; i < 20; ++i) {
    answers.push_back(i % 2 == 0 ? server.ask({{x, {2, 4}}, {y, {2, 3}}})
                                 : server.ask({Tensor::from(runtime.device(), x, {2, 4}),
                                               Tensor::from(runtime.device(), y, {2, 3})}));
  }
  for (Pending<Answer>& answer : answers) {
    const Answer got = std::move(answer).get();
    ASSERT_EQ(got.outputs.size(), 2U);
    EXPECT_TRUE(is_near(got.outputs[0].values<float>(), sums));
    EXPECT_EQ(got.outputs[0].shape, (Shape{2, 3}));
    EXPECT_EQ(got.outputs[1].values<float>(), twice.to_vector<float>());
  }
}

TEST(ModelServer, ValuesThatDecideShapesSeparateBatches) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  Door door;
  ModelServer<Net> server(runtime, model, {}, [&](const Net&, std::span<const Tensor> in) {
    door.pass();
    return std::vector<Tensor>{slice(in[0], 1, {.start = 0, .stop = in[1].item<std::int64_t>()})};
  });
  const auto width = [](std::int64_t value) {
    return RequestInput(std::vector<std::int64_t>{value}, {1}).by_value();
  };
  std::vector<Pending<Answer>> answers;
  for (const std::int64_t value : {3, 3, 5, 3, 5, 5}) {
    answers.push_back(server.ask({{input(1), {1, 40}}, width(value)}));
    door.wait_for(1);
  }
  door.open();
  std::vector<std::int64_t> widths;
  widths.reserve(answers.size());
  for (Pending<Answer>& answer : answers) {
    widths.push_back(answer.get().outputs[0].shape[1]);
  }
  EXPECT_EQ(widths, (std::vector<std::int64_t>{3, 3, 5, 3, 5, 5}));
}

TEST(ModelServer, MistakesOfTheCallAreThrownAtOnce) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  ModelServer server(runtime, model, {.max_batch = 4, .max_waiting_rows = 8});
  const auto refusal = [&](std::vector<RequestInput> inputs) -> std::string {
    try {
      static_cast<void>(server.ask(std::move(inputs)));
      return "";
    } catch (const ArgumentError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(refusal({}), HasSubstr("no input has rows"));
  EXPECT_THAT(refusal({Tensor()}), HasSubstr("input 0 is an empty tensor"));
  EXPECT_THAT(refusal({{input(1), {1, 40}}, {input(1), {2, 20}}}),
              HasSubstr("input 1 is f32[2, 20]: expected 1 rows"));
  EXPECT_THAT(refusal({{input(1, 200), {5, 40}}}),
              HasSubstr("5 rows: expected at most max_batch, 4"));
  EXPECT_THROW(RequestInput(input(1), {1, 41}), ShapeError);
  EXPECT_THROW(ModelServer<Net>(runtime, model, {.max_batch = 0}), ArgumentError);
  EXPECT_THROW(ModelServer<Net>(runtime, model, {.max_batch = 8, .max_waiting_rows = 4}),
               ArgumentError);
  // Not a mistake that the server can know: the forward pass finds it.
  Pending<Answer> wrong = server.ask({{input(1, 41), {1, 41}}});
  EXPECT_THROW(static_cast<void>(wrong.get()), ShapeError);
  EXPECT_EQ(server.answer({{input(1), {1, 40}}}).outputs[0].values<float>(), alone(model, 1));
}

TEST(ModelServer, AFullQueueRefusesAtOnce) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  Door door;
  auto server = held_server(runtime, model, door, {.max_batch = 4, .max_waiting_rows = 6});
  std::vector<Pending<Answer>> answers;
  answers.push_back(server.ask({{input(0), {1, 40}}}));
  door.wait_for(1);
  for (int i = 0; i < 10; ++i) {
    answers.push_back(server.ask({{input(i), {1, 40}}}));
  }
  int refused = 0;
  for (const Pending<Answer>& answer : answers) {
    refused += answer.is_ready() ? 1 : 0;
  }
  EXPECT_EQ(refused, 4);
  EXPECT_THROW(static_cast<void>(answers.back().get()), ServerOverloaded);
  door.open();
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(answers[i].get().outputs.size(), 1U);
  }
  EXPECT_EQ(server.statistics().refused, 4U);
}

TEST(ModelServer, ADeadlineEndsARequestThatWaitsOrRuns) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  Door door;
  auto server = held_server(runtime, model, door);
  const auto start = detail::current_context().clock().now();
  Pending<Answer> runs = server.ask({{input(0), {1, 40}}}, {.deadline = Deadline::in(1s)});
  door.wait_for(1);
  Pending<Answer> waits = server.ask({{input(1), {1, 40}}}, {.deadline = Deadline::in(1s)});
  std::stop_source stop;
  Pending<Answer> stopped = server.ask({{input(2), {1, 40}}}, {.stop = stop.get_token()});
  EXPECT_EQ(runs.wait().error().code, ErrorCode::deadline_exceeded);
  EXPECT_EQ(waits.wait().error().code, ErrorCode::deadline_exceeded);
  // The door stays closed. model_server_schedules_test has the 50 ms, in the time of its clock.
  EXPECT_LT(detail::current_context().clock().now() - start, 10s);
  stop.request_stop();
  door.open();
  EXPECT_EQ(stopped.wait().error().code, ErrorCode::cancelled);
  EXPECT_EQ(server.answer({{input(3), {1, 40}}}).outputs[0].values<float>(), alone(model, 3));
  EXPECT_EQ(server.statistics().expired, 3U);
}

TEST(ModelServer, PublishedWeightsReachLaterAnswersAndLoseNone) {
  const Runtime runtime(cpu_devices(1));
  const Device device = runtime.device();
  const std::array<Frozen<Net>, 2> models{frozen<Net>(device, 1), frozen<Net>(device, 2)};
  const std::array<std::vector<float>, 2> expected{alone(models[0], 5), alone(models[1], 5)};
  ModelServer server(runtime, models[0]);
  std::atomic<bool> is_over = false;
  std::atomic<int> wrong = 0;
  std::atomic<int> answers = 0;
  {
    std::vector<std::jthread> clients;
    clients.reserve(8);
    for (int client = 0; client < 8; ++client) {
      clients.emplace_back([&] {
        while (!is_over) {
          const Answer answer = server.answer({{input(5), {1, 40}}});
          wrong += is_near(answer.outputs[0].values<float>(), expected[(answer.version - 1) % 2])
                       ? 0
                       : 1;
          ++answers;
        }
      });
    }
    for (int i = 1; i <= 20; ++i) {
      server.publish(models[static_cast<std::size_t>(i) % 2]);
      const int before = answers;
      while (answers < before + 5) {
        std::this_thread::yield();
      }
    }
    is_over = true;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(server.version(), 21U);
  EXPECT_EQ(server.answer({{input(5), {1, 40}}}).version, 21U);
  EXPECT_EQ(server.statistics().failed, 0U);
}

TEST(ModelServer, ExactRowsHaveTheBitsOfARowAlone) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  std::vector<std::vector<float>> expected;
  expected.reserve(8);
  for (int number = 0; number < 8; ++number) {
    expected.push_back(alone(model, number));
  }
  ModelServer server(runtime, model, {.exact_rows = true});
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> clients;
    clients.reserve(12);
    for (int client = 0; client < 12; ++client) {
      clients.emplace_back([&, client] {
        for (int i = 0; i < 60; ++i) {
          const int number = (client + i) % 8;
          wrong += server.answer({{input(number), {1, 40}}}).outputs[0].values<float>() ==
                           expected[static_cast<std::size_t>(number)]
                       ? 0
                       : 1;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  // A request of several rows gets the bits of its rows, too.
  std::vector<float> rows = input(1);
  const std::vector<float> second = input(2);
  rows.insert(rows.end(), second.begin(), second.end());
  std::vector<float> both = expected[1];
  both.insert(both.end(), expected[2].begin(), expected[2].end());
  EXPECT_EQ(server.answer({{rows, {2, 40}}}).outputs[0].values<float>(), both);
}

TEST(ModelServer, ExactRowsAreRefusedWhereNoKernelGuaranteesThem) {
  const Runtime runtime({.devices = {{.name = "sim:0"}}});
  const Frozen<Net> model = frozen<Net>(runtime.device());
  try {
    ModelServer<Net> server(runtime, model, {.exact_rows = true});
    ADD_FAILURE() << "a simulated device promised exact rows";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("sim:0"));
  }
}

TEST(ModelServer, DrainAnswersWhatWaitsAndRefusesTheRest) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  Door door;
  auto server = held_server(runtime, model, door);
  Pending<Answer> first = server.ask({{input(0), {1, 40}}});
  door.wait_for(1);
  Pending<Answer> second = server.ask({{input(1), {1, 40}}});
  EXPECT_FALSE(server.drain(Deadline::in(10ms)));
  EXPECT_EQ(server.ask({{input(2), {1, 40}}}).wait().error().code, ErrorCode::cancelled);
  door.open();
  EXPECT_TRUE(server.drain());
  EXPECT_TRUE(first.is_ready() && second.is_ready());
  EXPECT_TRUE(first.wait().has_value() && second.wait().has_value());
}

TEST(ModelServer, ItsEndCancelsWhatWaits) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  Door door;
  Pending<Answer> runs;
  Pending<Answer> waits;
  std::jthread opener;
  {
    auto server = held_server(runtime, model, door);
    runs = server.ask({{input(0), {1, 40}}});
    door.wait_for(1);
    waits = server.ask({{input(1), {1, 40}}});
    opener = std::jthread([&] {
      static_cast<void>(waits.wait());
      door.open();
    });
  }
  EXPECT_TRUE(runs.wait().has_value());
  EXPECT_EQ(waits.wait().error().code, ErrorCode::cancelled);
}

TEST(ModelServer, AContinuationGetsTheAnswer) {
  const Runtime runtime(cpu_devices(1));
  const Frozen<Net> model = frozen<Net>(runtime.device());
  ModelServer server(runtime, model);
  Pending<std::size_t> size =
      server.ask({{input(0), {1, 40}}}).then(runtime.continuations(), [](const Answer& answer) {
        return answer.outputs[0].values<float>().size();
      });
  EXPECT_EQ(size.get(), 10U);
}

TEST(RowProof, AllowsTheSumRowOfTheToleranceTable) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const Tolerance table = tolerance(testing::Precision::sum, dtype, detail::kProofTerms, 3.0);
    EXPECT_EQ(detail::row_tolerance(dtype, -2.0, 3.0), table.absolute + table.relative * 2.0)
        << name(dtype);
  }
}

}  // namespace
}  // namespace hearth
