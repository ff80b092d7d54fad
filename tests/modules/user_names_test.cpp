// What programs call their own types, beside `using namespace hearth`: names of ours that are as
// common would be ambiguous, and the program would not compile.
#include <gtest/gtest.h>

#include <hearth/hearth.hpp>

using namespace hearth;  // NOLINT(google-build-using-namespace): as programs do

struct Block {
  Linear inner;
  HEARTH_MODULE(Block, inner)

  [[nodiscard]] Tensor forward(const Tensor& x) const { return relu(inner.forward(x)) + x; }
};

struct Clock {};
struct Page {};
struct Acquire {};
struct Layer {};
struct Model {};
struct Net {};
struct Mlp {};
struct Head {};
struct Attention {};
struct Encoder {};
struct Decoder {};
struct Config {};
struct Options {};
struct State {};
struct Node {};
struct Edge {};
struct Graph {};
struct Point {};
struct Timer {};
struct Event {};
struct Task {};
struct Job {};
struct Queue {};
struct Pool {};
struct Cache {};
struct Kernel {};
struct Op {};
struct Request {};
struct Response {};
struct Server {};
struct Client {};
struct Session {};
struct Token {};
struct Sample {};
struct Loss {};
struct Metrics {};
struct Logger {};
struct Arguments {};

template <class... Types>
constexpr std::size_t count_of() {
  return sizeof...(Types);
}

TEST(UserNames, AreTheUsersOwn) {
  EXPECT_EQ((count_of<Clock, Page, Acquire, Layer, Model, Net, Mlp, Head, Attention, Encoder,
                      Decoder, Config, Options, State, Node, Edge, Graph, Point, Timer, Event, Task,
                      Job, Queue, Pool, Cache, Kernel, Op, Request, Response, Server, Client,
                      Session, Token, Sample, Loss, Metrics, Logger, Arguments>()),
            38U);
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Block block{.inner = Linear({.in = 4, .out = 4}, device, generator)};
  EXPECT_EQ(block.forward(ones(device, {2, 4})).shape(), Shape({2, 4}));
}
