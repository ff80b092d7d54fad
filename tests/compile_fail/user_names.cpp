// What programs call their own types, beside `using namespace hearth`: names of ours that are as
// common would be ambiguous. The case that must not compile has one of ours.
#include <hearth/hearth.hpp>

using namespace hearth;  // NOLINT(google-build-using-namespace): as programs do

struct Block {
  Linear inner;
  HEARTH_MODULE(Block, inner)

  [[nodiscard]] Tensor forward(const Tensor& x) const { return relu(inner.forward(x)) + x; }
};

struct Acquire {};
struct Arguments {};
struct Attention {};
struct Bucket {};
struct Cache {};
struct Client {};
struct Clock {};
struct Config {};
struct Coordinator {};
struct Decoder {};
struct Edge {};
struct Encoder {};
struct Event {};
struct Graph {};
struct Head {};
struct Job {};
struct Kernel {};
struct Layer {};
struct Logger {};
struct Loss {};
struct Metrics {};
struct Mlp {};
struct Model {};
struct Net {};
struct Node {};
struct Op {};
struct Options {};
struct Page {};
struct Point {};
struct Pool {};
struct Queue {};
struct Replica {};
struct Request {};
struct Response {};
struct Sample {};
struct Server {};
struct Session {};
struct State {};
struct Task {};
struct Timer {};
struct Token {};
struct Worker {};

template <class... Types>
struct Named {};

using All = Named<Acquire, Arguments, Attention, Block, Bucket, Cache, Client, Clock, Config>;
using Early = Named<Coordinator, Decoder>;
using More = Named<Edge, Encoder, Event, Graph, Head, Job, Kernel, Layer, Logger, Loss, Metrics>;
using Others = Named<Mlp, Model, Net, Node, Op, Options, Page, Point, Pool, Queue, Request>;
using Rest = Named<Replica, Response, Sample, Server, Session, State, Task, Timer, Token, Worker>;
#ifdef HEARTH_MUST_FAIL
struct Trainer {};
using Ours = Named<Trainer>;
#endif
