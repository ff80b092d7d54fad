// Names that programs give their own types beside `using namespace hearth`: a common name of ours
// would be ambiguous. The failing case uses one of ours.
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
struct ContextAttachment {};
struct Coordinator {};
struct Decoder {};
struct Edge {};
struct Encoder {};
struct Event {};
struct Executor {};
struct Failure {};
struct FailureBook {};
struct Graph {};
struct Head {};
struct Id {};
struct Interner {};
struct Job {};
struct Joinable {};
struct Kernel {};
struct Layer {};
struct Layout {};
struct Log {};
struct LogLevel {};
struct LogOptions {};
struct Logger {};
struct LogicalThread {};
struct Loss {};
struct Mailbox {};
struct MailboxOptions {};
struct MailboxPush {};
struct Metrics {};
struct Mlp {};
struct Model {};
struct Mutex {};
struct MutexLock {};
struct Net {};
struct Node {};
struct Op {};
struct Options {};
struct OwnedThread {};
struct OwnedThreadOptions {};
struct Page {};
struct ParkWord {};
struct Parker {};
struct PendingHelper {};
struct PendingStateBase {};
struct Point {};
struct Pool {};
struct Queue {};
struct RepeatedKernels {};
struct Replica {};
struct Report {};
struct Request {};
struct Response {};
struct Sample {};
struct Server {};
struct Session {};
struct Setting {};
struct SettingInfo {};
struct Settings {};
struct State {};
struct StdAtomics {};
struct Tape {};
struct Task {};
struct ThreadContext {};
struct ThreadId {};
struct ThreadOptions {};
struct Timer {};
struct Token {};
struct Trace {};
struct TraceEvent {};
struct TraceLog {};
struct TraceSpan {};
struct TraceTrack {};
struct Trainer {};
struct WaitList {};
struct WaitNode {};
struct Wake {};
struct Watchdog {};
struct Worker {};

// Functions without arguments: the call would be ambiguous.
inline int current_context() {
  return 1;
}
inline int known_settings() {
  return 1;
}
inline constexpr int kSettingCount = 1;
inline int lock_point() {
  return 1;
}
inline int schedule_point() {
  return 1;
}

template <class... Types>
struct Named {};

using First = Named<Acquire, Arguments, Attention, Block, Bucket, Cache, Client, Clock, Config>;
using Second = Named<Coordinator, Decoder, Edge, Encoder, Event, Executor, Failure, FailureBook>;
using Third = Named<Graph, Head, Id, Interner, Job, Joinable, Kernel, Layer, Layout, Log, LogLevel>;
using Fourth = Named<LogOptions, Logger, Loss, Mailbox, MailboxOptions, Metrics, Mlp, Model, Mutex>;
using Fifth = Named<MutexLock, Net, Node, Op, Options, Page, Parker, Point, Pool, Queue>;
using Sixth = Named<RepeatedKernels, Replica, Report, Request, Response, Sample, Server, Session>;
using Seventh = Named<Setting, SettingInfo, Settings, State, Tape, Task, ThreadContext, ThreadId>;
using Eighth = Named<ThreadOptions, Timer, Token, Trace, TraceEvent, TraceLog, TraceSpan>;
using Ninth = Named<TraceTrack, WaitList, WaitNode, Wake, Watchdog, Worker>;
using Tenth = Named<ContextAttachment, LogicalThread, MailboxPush, OwnedThread, OwnedThreadOptions>;
using Eleventh = Named<ParkWord, PendingHelper, PendingStateBase, StdAtomics>;

inline const int kCalled =
    current_context() + known_settings() + kSettingCount + lock_point() + schedule_point();

#ifdef HEARTH_MUST_FAIL
struct Trainer {};
using Ours = Named<Trainer>;
#endif
