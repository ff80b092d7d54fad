// The pictures of hearth-bench memory: blocks and their labels.
#include "bench/memory_blocks.hpp"
#include "bench/memory_labels.hpp"
#include "bench/memory_timeline.hpp"

#include <hearth/modules/activations.hpp>
#include <hearth/modules/adam.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/memory_trace.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MemoryPicture, NamesEachBlockAndHasRoundTicks) {
  MemoryTrace events;
  std::int64_t time = 0;
  const auto event = [&](MemoryEvent::What what, std::uint64_t block, const char* path, bool kept) {
    events.push_back({.what = what,
                      .block = block,
                      .time = detail::TimePoint(std::chrono::nanoseconds(
                          what == MemoryEvent::What::made&& kept ? 0 : time += 1'000'000)),
                      .tensor = {.size_bytes = 1 << 20,
                                 .is_exclusive = kept,
                                 .origin = {"fill", "f32[262144]", path, {"train.cpp", 7}}}});
  };
  event(MemoryEvent::What::made, 1, "mean.inner.weight", true);
  event(MemoryEvent::What::made, 2, "variance.inner.weight", true);
  for (std::uint64_t block = 3; block < 23; ++block) {
    event(MemoryEvent::What::made, block, "inner.weight", false);
    event(MemoryEvent::What::freed, block, "inner.weight", false);
  }
  const std::string by_events = bench::draw_memory_timeline(events, "a title");
  for (const char* text : {"3: temporaries 1.00 MiB, f32[262144] fill in inner.weight",
                           "Kinds",
                           ">temporaries</text>",
                           ">1 mean.inner.weight f32[262144] 1.00 MiB</text>",
                           ">3</text>",
                           "1.00 MiB x20 @0",
                           "mean.inner.weight",
                           "variance.inner.weight",
                           "fill of inner",
                           "train.cpp:7",
                           "peak 3.00 MiB",
                           "a title",
                           ">15</text>"}) {
    EXPECT_THAT(by_events, HasSubstr(text));
  }
  const std::string by_time =
      bench::draw_memory_timeline(events, "a title", bench::MemoryAxis::time);
  EXPECT_THAT(by_time, HasSubstr(">milliseconds</text>"));
  EXPECT_THAT(by_time, Not(HasSubstr("allocations and releases")));
}

// A block too thin for a number inside has one above, with a line to it.
TEST(MemoryPicture, EachBlockOfASmallOneHasItsNumber) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}, .deterministic = true});
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Linear inner({.in = 8, .out = 16}, device, generator);
  const Linear outer({.in = 16, .out = 4}, device, generator);
  Sequential model(inner, Relu(), outer);
  Adam adam({.learning_rate = 1e-3});
  const auto train_step = [&] {
    const Tensor x = ones(device, {32, 8});
    const Tensor targets = zeros(device, {32}, DType::i64);
    auto [loss, gradients] = value_and_grad(
        model, [&](const auto& tracked) { return cross_entropy(tracked.forward(x), targets); });
    adam.step(model, std::move(gradients)).get();
    static_cast<void>(loss.item());
  };
  train_step();
  device.start_memory_trace();
  train_step();
  const MemoryTrace events = device.take_memory_trace();
  const bench::MemoryBlocks blocks = bench::blocks_of(events);
  ASSERT_GT(blocks.groups.size(), 12U);
  const std::string svg = bench::draw_memory_timeline(events, "a title");
  const auto is_named = [&](const std::string& number, const std::string& kind) {
    return std::regex_search(svg, std::regex("<text class=\"in\"[^>]*>" + number + "[ <]")) ||
           std::regex_search(svg, std::regex("<text class=\"out\"[^>]*>" + number + "<")) ||
           std::regex_search(svg, std::regex("<text class=\"in\"[^>]*>" + kind + ": "));
  };
  for (std::size_t i = 0; i < blocks.groups.size(); ++i) {
    EXPECT_TRUE(is_named(std::to_string(i + 1), std::string(bench::name_of(blocks.groups[i].kind))))
        << i + 1 << ": " << bench::name_of(blocks.groups[i].tensor);
  }
  EXPECT_THAT(svg, HasSubstr("<circle class=\"lead\""));
}

TEST(MemoryLabels, NumbersAboveTheStackKeepApartAndSayWhichHadNoRoom) {
  std::vector<bench::ThinBlock> blocks;
  for (std::size_t number = 1; number <= 40; ++number) {
    blocks.push_back({.number = number, .spots = {{.x = 50, .y = 300}, {.x = 80, .y = 300}}});
  }
  const bench::Leaders drawn = bench::draw_leaders(
      blocks, [](double, double) { return 200.0; }, 150);
  std::set<std::string> places;
  const std::regex text("<text class=\"out\"[^>]* x=\"([0-9.]+)\" y=\"([0-9.]+)\"");
  std::size_t count = 0;
  for (auto each = std::sregex_iterator(drawn.svg.begin(), drawn.svg.end(), text);
       each != std::sregex_iterator();
       ++each, ++count) {
    places.insert((*each)[1].str() + " " + (*each)[2].str());
  }
  EXPECT_GE(count, 2U) << "two beside one another; none stands in the line of another";
  EXPECT_EQ(places.size(), count);
  EXPECT_EQ(count + drawn.left_out.size(), blocks.size());
  EXPECT_EQ(bench::words_of_left_out({}), "");
  EXPECT_EQ(bench::words_of_left_out({3, 4}), "too thin for a number: 3, 4");
  EXPECT_THAT(bench::words_of_left_out(drawn.left_out), ::testing::EndsWith(" more"));
}

/// A tensor that lives from this event to that of its end.
MemoryEvent made(std::uint64_t block, std::int64_t size, const char* op, const char* path) {
  return {.what = MemoryEvent::What::made,
          .block = block,
          .time = {},
          .tensor = {.size_bytes = size, .origin = {op, "f32", path, {"train.cpp", 7}}}};
}

TEST(MemoryBlocks, HaveAKindEach) {
  MemoryTrace trace;
  std::uint64_t block = 0;
  for (const char* path :
       {"inner.weight", "mean.inner.weight", "variance.inner.weight", "mean.weight"}) {
    trace.push_back(made(++block, 64, "adam_step", path));
    trace.back().tensor.is_exclusive = true;
  }
  trace.push_back(made(++block, 8, "upload", ""));
  trace.push_back(made(++block, 64, "matmul", "inner.weight"));  // as large as the weight
  trace.push_back(made(++block, 64, "matmul", "inner.weight"));
  trace.push_back(made(++block, 128, "relu_backward", ""));
  trace.push_back(made(++block, 128, "exp", ""));
  trace.push_back(trace.back());
  trace.back().what = MemoryEvent::What::freed;
  for (std::size_t i = 0; i < bench::kSoon; ++i) {
    trace.push_back(made(++block, 256, "relu", ""));
  }
  const std::size_t joined = trace.size();
  trace.push_back(made(++block, 200, "concat", ""));
  trace.push_back(made(++block, 200, "lend", ""));
  trace.push_back(made(++block, 200, "concat", ""));
  trace.back().tensor.origin.type = "f32[5, 60]";
  const auto kind_of = [](const bench::MemoryBlocks& all, std::size_t event) {
    return bench::name_of(all.groups[all.by_event[event]].kind);
  };
  EXPECT_EQ(kind_of(bench::blocks_of(trace), 6), "activations") << "no update, no gradient";
  trace.push_back(trace.front());
  trace.back().what = MemoryEvent::What::replaced;
  trace.back().time += std::chrono::milliseconds(1);
  const bench::MemoryBlocks blocks = bench::blocks_of(trace);
  std::vector<std::string_view> kinds;
  for (std::size_t i = 0; i < 9; ++i) {
    kinds.push_back(kind_of(blocks, i));
  }
  EXPECT_THAT(kinds,
              ElementsAre("parameters",
                          "optimizer mean",
                          "optimizer variance",
                          "parameters",
                          "inputs",
                          "activations",
                          "gradients",
                          "gradients",
                          "temporaries"))
      << "a layer may be called mean; a layer's first result is no gradient";
  EXPECT_EQ(kind_of(blocks, joined), "gradients") << "joined, for an exchange between devices";
  EXPECT_EQ(kind_of(blocks, joined + 1), "gradients");
  EXPECT_NE(kind_of(blocks, joined + 2), "gradients") << "the model's own";
  EXPECT_EQ(blocks.groups.front().count, bench::kSoon) << "one group of all that are alike";
}

TEST(RoundNumbers, AreOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_THAT(bench::round_numbers(40, 8), ElementsAre(0, 5, 10, 15, 20, 25, 30, 35, 40));
  EXPECT_THAT(bench::round_numbers(7, 8), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(bench::round_numbers(0, 8), ElementsAre(0));
}

}  // namespace
}  // namespace hearth
