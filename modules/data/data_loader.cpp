#include <hearth/modules/data_loader.hpp>

#include <hearth/modules/epoch_order.hpp>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/owned_thread.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/thrown_error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

std::string_view name_of(const LoaderOptions& options) {
  return options.name.empty() ? std::string_view("DataLoader") : options.name;
}

void require(bool is_right,
             const LoaderOptions& options,
             const std::string& text,
             SourceLoc where) {
  if (!is_right) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: {}", name_of(options), text),
                      .location = where});
  }
}

// Number of examples that an epoch reads.
std::int64_t epoch_size(const Dataset& dataset, const LoaderOptions& options) {
  return options.order.indices ? options.order.count : dataset.size();
}

void require_order(const Dataset& dataset, const LoaderOptions& options, SourceLoc where) {
  const ExampleOrder& order = options.order;
  if (!order.indices) {
    return;
  }
  require(order.size == dataset.size(),
          options,
          fmt::format(
              "the order is one of {} examples, the data set has {}", order.size, dataset.size()),
          where);
  require(order.count > 0,
          options,
          fmt::format("the order has {} examples, but must have 1 or more", order.count),
          where);
  require(order.batch_size == 0 || order.batch_size == options.batch_size,
          options,
          fmt::format("the order is made for batches of {}, batch_size is {}",
                      order.batch_size,
                      options.batch_size),
          where);
}

std::int64_t checked_batch_count(const Dataset& dataset,
                                 const LoaderOptions& options,
                                 SourceLoc where) {
  require(dataset.size() > 0, options, "the data set is empty", where);
  require(options.batch_size > 0,
          options,
          fmt::format("batch_size is {}, but must be 1 or more", options.batch_size),
          where);
  require(options.worker_count >= 0 && options.prefetch >= 1,
          options,
          fmt::format("worker_count is {} and prefetch {}, but must be 0 or more and 1 or more",
                      options.worker_count,
                      options.prefetch),
          where);
  require(options.deadline > std::chrono::nanoseconds::zero(),
          options,
          "deadline must be above 0",
          where);
  require(options.shutdown_limit >= std::chrono::nanoseconds::zero(),
          options,
          "shutdown_limit must be 0 or more",
          where);
  require(options.world >= 1 && options.rank >= 0 && options.rank < options.world,
          options,
          fmt::format("rank {} is not one of a world of {}", options.rank, options.world),
          where);
  constexpr std::int64_t kMostShares = std::int64_t{1} << 20;
  std::int64_t shares = 0;
  for (const std::int64_t each : options.shares) {
    require(each >= 0 && each <= kMostShares,
            options,
            fmt::format("a share is {}, but must be 0 to {}", each, kMostShares),
            where);
    shares += each;
  }
  require(options.shares.empty() ||
              (options.shares.size() == static_cast<std::size_t>(options.world) && shares > 0),
          options,
          fmt::format("there are {} shares that add up to {}, for {} ranks",
                      options.shares.size(),
                      shares,
                      options.world),
          where);
  require_order(dataset, options, where);
  const std::int64_t size = epoch_size(dataset, options);
  const std::int64_t whole = size / options.batch_size;
  const std::int64_t count =
      options.drop_last || size % options.batch_size == 0 ? whole : whole + 1;
  require(count > 0,
          options,
          fmt::format(
              "drop_last leaves no batch: {} examples, batches of {}", size, options.batch_size),
          where);
  return count;
}

}  // namespace

// Assembles batches. Each worker owns one, with the order of its current epoch.
class DataLoader::Assembler {
 public:
  Assembler(const Dataset& dataset, const LoaderOptions& options, std::int64_t batch_count)
      : dataset_(dataset), options_(options), batch_count_(batch_count) {}

  /// Assembles batch `number`, counted from the first of epoch 0.
  [[nodiscard]] Result<HostBatch> assemble(std::int64_t number) {
    const LoaderCursor cursor{number / batch_count_, number % batch_count_};
    try {
      return read(cursor);
    } catch (...) {
      return failure_of(cursor);
    }
  }

 private:
  [[nodiscard]] HostBatch read(LoaderCursor cursor) {
    if (cursor.epoch != epoch_) {
      order_ = order_of(cursor.epoch);
      epoch_ = cursor.epoch;
    }
    const std::int64_t first = cursor.batch * options_.batch_size;
    const std::int64_t global =
        std::min(options_.batch_size, epoch_size(dataset_, options_) - first);
    const RowRange rows = options_.shares.empty()
                              ? shard_rows(global, options_.rank, options_.world)
                              : shard_rows(global, options_.rank, options_.shares);
    const std::span<const std::int64_t> indices = std::span(order_).subspan(
        static_cast<std::size_t>(first + rows.begin), static_cast<std::size_t>(rows.size()));
    Examples examples = dataset_.read_in_epoch(indices, cursor.epoch);
    const bool may_leave_out = !examples.more.empty();
    if (!may_leave_out || !examples.inputs.is_left_out()) {
      require_rows("inputs", examples.inputs.shape(), rows.size());
    }
    if (!may_leave_out || !examples.targets.is_left_out()) {
      require_rows("targets", examples.targets.shape(), rows.size());
    }
    for (const NamedArray& named : examples.more) {
      require_rows(named.name, named.array.shape(), rows.size());
    }
    return HostBatch{.examples = std::move(examples),
                     .size = rows.size(),
                     .global_size = global,
                     .cursor = cursor};
  }

  [[nodiscard]] std::vector<std::int64_t> order_of(std::int64_t epoch) const {
    const ExampleOrder& own = options_.order;
    if (!own.indices) {
      return options_.shuffle ? shuffled_order(dataset_.size(), options_.seed, epoch)
                              : plain_order(dataset_.size());
    }
    std::vector<std::int64_t> order = own.indices(options_.seed, epoch);
    const bool is_of_data =
        std::ranges::all_of(order, [&](std::int64_t i) { return i >= 0 && i < dataset_.size(); });
    if (std::ssize(order) != own.count || !is_of_data) {
      throw_error(Error{
          .code = ErrorCode::invalid_argument,
          .text = fmt::format("the order returned {} indices{}, but {} from 0 to {} are needed",
                              order.size(),
                              is_of_data ? "" : ", some out of range",
                              own.count,
                              dataset_.size() - 1)});
    }
    return order;
  }

  // Checks that the first axis counts the examples.
  void require_rows(std::string_view what, const Shape& shape, std::int64_t asked) const {
    const std::int64_t got = shape.rank() == 0 ? 1 : shape[0];
    if (shape.rank() == 0 || got != asked) {
      throw_error(Error{.code = ErrorCode::shape_mismatch,
                        .text = fmt::format("{}::read() of {} examples returned {} {}",
                                            dataset_.name(),
                                            asked,
                                            shape.element_count() == 0 ? "no" : shape.to_string(),
                                            what)});
    }
  }
  // Converts the exception being handled to the loader's error.
  [[nodiscard]] Error failure_of(LoaderCursor cursor) const {
    const ErrorRef cause = cause_of_failure();
    const std::string text = fmt::format("{}: batch {} of epoch {} of {} could not be read",
                                         name_of(options_),
                                         cursor.batch,
                                         cursor.epoch,
                                         dataset_.name());
    if (!detail::describes_failure(*cause)) {
      return Error{.code = ErrorCode::worker_failed, .text = text, .cause = cause};
    }
    Error own = *cause;
    own.text = text + ": " + own.text;
    return own;
  }
  // The texts of an exception and of those nested in it (std::throw_with_nested).
  [[nodiscard]] static std::string words_of(const std::exception& thrown) {
    std::string words = thrown.what();
    try {
      std::rethrow_if_nested(thrown);
    } catch (const std::exception& inner) {
      words += ": " + words_of(inner);
    } catch (...) {
      words += ": something that is no std::exception";
    }
    return words;
  }
  // Returns the exception being handled as an error. A foreign exception contributes its what().
  [[nodiscard]] ErrorRef cause_of_failure() const {
    std::string what = "something that is no std::exception";
    try {
      throw;
    } catch (const FileError& thrown) {
      if (thrown.code() != ErrorCode::not_found) {
        return thrown.shared_error();
      }
      Error error = thrown.error();
      error.code = ErrorCode::io_error;  // not_found would be thrown as ArgumentError
      return std::make_shared<const Error>(std::move(error));
    } catch (const Exception& thrown) {
      return thrown.shared_error();
    } catch (const std::exception& thrown) {
      what = words_of(thrown);
    } catch (...) {
    }
    return std::make_shared<const Error>(
        Error{.code = ErrorCode::worker_failed,
              .text = fmt::format("{}::read() threw: {}", dataset_.name(), what)});
  }

  const Dataset& dataset_;
  const LoaderOptions options_;
  const std::int64_t batch_count_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;
};

// The reader's side of a worker.
struct DataLoader::Worker {
  // State shared with the worker's thread, which may be abandoned.
  struct Desk {
    explicit Desk(std::size_t capacity) : batches({.capacity = capacity}) {}
    detail::Mailbox<Result<HostBatch>> batches;
    std::atomic<std::int64_t> number{0};  // of the batch in progress
  };

  std::shared_ptr<Desk> desk;
  std::unique_ptr<detail::OwnedThread> thread;
};

DataLoader::DataLoader(const Dataset& dataset,
                       detail::Executor& executor,
                       LoaderOptions options,
                       SourceLoc where)
    : dataset_(dataset),
      executor_(executor),
      executor_life_(executor.life()),
      options_(options),
      batch_count_(checked_batch_count(dataset, options, where)) {}

DataLoader::~DataLoader() {
  stop_workers();
}

void DataLoader::start_workers(SourceLoc where) {
  require(!executor_life_.expired(),
          options_,
          "the Runtime whose executor it was given has ended; a loader must not outlive it",
          where);
  const std::int64_t first = cursor_.epoch * batch_count_ + cursor_.batch;
  for (int i = 0; i < options_.worker_count; ++i) {
    const auto desk = std::make_shared<Worker::Desk>(static_cast<std::size_t>(options_.prefetch));
    auto body = [desk,
                 assembler = Assembler(dataset_, options_, batch_count_),
                 number = first + i,
                 step = options_.worker_count]() mutable {
      for (bool goes_on = true; goes_on; number += step) {
        desk->number.store(number, std::memory_order_release);  // partner: observe
        Result<HostBatch> batch = assembler.assemble(number);
        goes_on = batch.has_value();
        // No deadline: a batch waits until the program has taken the one before it.
        goes_on = desk->batches.push(std::move(batch), Deadline::never()) ==
                      detail::MailboxPush::accepted &&
                  goes_on;
      }
    };
    const auto observe = [desk, count = batch_count_] {
      const std::int64_t number =
          desk->number.load(std::memory_order_acquire);  // partner: the body
      return fmt::format(
          "is in Dataset::read() for batch {} of epoch {}", number % count, number / count);
    };
    const std::string name = fmt::format("loader-{}", i);
    auto thread = std::make_unique<detail::OwnedThread>(
        executor_,
        detail::ThreadOptions{.name = name},
        detail::OwnedThreadOptions{.subject = fmt::format("{}: {}", name_of(options_), name),
                                   .observe = observe,
                                   .limit = options_.shutdown_limit,
                                   .log = options_.log},
        std::move(body));
    workers_.push_back(std::make_unique<Worker>(Worker{desk, std::move(thread)}));
  }
  turn_ = 0;
}

void DataLoader::stop_workers() noexcept {
  for (const std::unique_ptr<Worker>& worker : workers_) {
    worker->desk->batches.close();
  }
  const Deadline limit = Deadline::in(options_.shutdown_limit);
  for (const std::unique_ptr<Worker>& worker : workers_) {
    worker->thread->end(limit);
  }
  workers_.clear();
}

Result<HostBatch> DataLoader::take(SourceLoc where) {
  const detail::FloatEnvironment environment;
  if (options_.worker_count == 0) {
    if (!own_) {
      own_ = std::make_unique<Assembler>(dataset_, options_, batch_count_);
    }
    return own_->assemble(cursor_.epoch * batch_count_ + cursor_.batch);
  }
  if (workers_.empty()) {
    try {
      start_workers(where);
    } catch (...) {
      stop_workers();
      throw;
    }
  }
  std::optional<Result<HostBatch>> batch =
      workers_[turn_]->desk->batches.pop(Deadline::in(options_.deadline));
  if (!batch) {
    return Error{.code = ErrorCode::deadline_exceeded,
                 .text = fmt::format("{}: the data set did not return batch {} of epoch {} in time",
                                     name_of(options_),
                                     cursor_.batch,
                                     cursor_.epoch),
                 .report = detail::Report(
                     fmt::format("watchdog report, open waits:\n  the reader: waits for loader-{}\n"
                                 "  loader-{}: is in Dataset::read()",
                                 turn_,
                                 turn_))};
  }
  turn_ = (turn_ + 1) % workers_.size();
  return *std::move(batch);
}

std::optional<HostBatch> DataLoader::next(SourceLoc where) {
  const auto fail = [&] {
    Error failure = *failure_;
    if (failure.location.line == 0) {
      failure.location = where;
    }
    throw_error(std::move(failure));
  };
  if (failure_) {
    fail();
  }
  if (cursor_.batch == batch_count_) {
    cursor_ = {cursor_.epoch + 1, 0};
    return std::nullopt;
  }
  Result<HostBatch> batch = take(where);
  if (!batch.has_value()) {
    failure_ = batch.error();
    fail();
  }
  ++cursor_.batch;
  return std::move(batch).value();
}

Batch HostBatch::to(const Device& device, SourceLoc loc) && {
  const auto upload = [&](HostArray& array) {
    const bool is_there = !array.is_left_out() || size == 0;
    return is_there ? std::move(array).to(device, loc) : Tensor();
  };
  Batch there{.inputs = upload(examples.inputs),
              .targets = upload(examples.targets),
              .size = size,
              .global_size = global_size,
              .cursor = cursor};
  for (NamedArray& named : examples.more) {
    there.more.push_back({std::move(named.name), std::move(named.array).to(device, loc)});
  }
  return there;
}

std::optional<Batch> DataLoader::next(const Device& device, SourceLoc where) {
  std::optional<HostBatch> batch = next(where);
  if (!batch) {
    return std::nullopt;
  }
  try {
    return std::move(*batch).to(device, where);
  } catch (...) {
    seek(batch->cursor, where);
    throw;
  }
}

void DataLoader::seek(LoaderCursor cursor, SourceLoc where) {
  // Batches are numbered across all epochs, so the number of epochs is bounded.
  const std::int64_t most_epochs = std::numeric_limits<std::int64_t>::max() / 2 / batch_count_;
  require(cursor.epoch >= 0 && cursor.epoch < most_epochs && cursor.batch >= 0 &&
              cursor.batch <= batch_count_,
          options_,
          fmt::format("there is no batch {} of epoch {}: an epoch has {}",
                      cursor.batch,
                      cursor.epoch,
                      batch_count_),
          where);
  stop_workers();
  failure_.reset();
  cursor_ = cursor;
}

const Tensor& Batch::at(std::string_view name, SourceLoc loc) const {
  if (name == "inputs") {
    return inputs;
  }
  if (name == "targets") {
    return targets;
  }
  std::string names = "inputs, targets";
  for (const NamedTensor& named : more) {
    if (named.name == name) {
      return named.tensor;
    }
    names += ", " + named.name;
  }
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("Batch: there is no '{}'; there are {}", name, names),
                    .location = loc});
}

}  // namespace hearth
