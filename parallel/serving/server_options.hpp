// Options, answers and counters of a ModelServer. Values. Threads: any.
#pragma once

#include <hearth/parallel/request_input.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/priority.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace hearth {

/// How a server verifies that rows of a batch do not depend on one another.
enum class RowProof : std::uint8_t {
  /// The first batch of a signature also runs request by request. If a row differs, that signature
  /// gets batches of one request.
  first_batch,
  /// The program states it: no request runs a second time for a proof.
  trusted,
  /// Axis 0 counts no rows. Each request runs by itself, with inputs of any shapes, as one row.
  no_rows,
};

struct ServerOptions {
  std::int64_t max_batch = 64;  ///< Largest number of rows in a batch.
  /// How long a request may wait for others although a device is idle.
  std::chrono::nanoseconds max_delay = std::chrono::nanoseconds::zero();
  std::int64_t max_waiting_rows = 4096;  ///< Rows that may wait; further requests are refused.
  /// Devices that run batches; empty = the device of the model.
  std::vector<Device> devices = {};
  /// Gives each row the bits that it has alone. Only cpu devices can.
  bool exact_rows = false;
  /// How the server verifies that rows do not depend on one another.
  RowProof proof = RowProof::first_batch;
  /// Whether a forward pass may run again after a failure or for a proof.
  bool repeatable = true;
  /// Time after which a batch counts as hung. Its requests then run on another device.
  std::chrono::nanoseconds hang_limit = std::chrono::seconds(2);
  /// Limit of the destructor's wait for running batches.
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;
};

struct RequestOptions {
  /// Time until which the answer is of use. A request that would miss it is refused at once.
  Deadline deadline = Deadline::never();
  /// Order in the queue: latency first. A waiting request moves ahead of later ones of any
  /// priority, so none starves.
  Priority priority = Priority::normal;
  std::stop_token stop = {};  ///< A stop drops the request if its batch has not begun.
};

/// Result of a request: one entry for each output of the forward pass, with the request's rows.
struct Answer {
  std::vector<HostRows> outputs;
  std::uint64_t version = 0;  ///< Version of the weights, from 1.
};

/// Counters of a server since its start.
struct ServerStatistics {
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;   ///< `overloaded`.
  std::uint64_t answered = 0;  ///< With a value.
  std::uint64_t failed = 0;    ///< With an error, after the request was accepted.
  std::uint64_t expired = 0;   ///< The part of `failed` by deadlines and stops.
  std::uint64_t retried = 0;   ///< Requests that ran again after a loss or a hang.
  std::uint64_t batches = 0;
  std::uint64_t rows = 0;         ///< Rows of all batches, without the repeated ones.
  std::uint64_t padded_rows = 0;  ///< Rows that only filled a batch.
  std::uint64_t proofs = 0;       ///< Batches that also ran request by request.
  std::int64_t waiting_rows = 0;  ///< Now.
  /// Batches by size: entry i counts those with 2^(i-1) < rows <= 2^i.
  std::vector<std::uint64_t> batch_sizes = {};
};

}  // namespace hearth
