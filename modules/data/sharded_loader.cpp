#include <hearth/modules/sharded_loader.hpp>

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace hearth {
namespace {

LoaderOptions named(LoaderOptions options) {
  if (options.name.empty()) {
    options.name = "ShardedLoader";
  }
  return options;
}

}  // namespace

ShardedLoader::ShardedLoader(const Dataset& dataset,
                             detail::Executor& executor,
                             const LoaderOptions& options,
                             int world,
                             SourceLoc where)
    : dataset_(dataset),
      executor_(executor),
      executor_life_(executor.life()),
      options_(named(options)) {
  set_world(world, where);
}

ShardedLoader::ShardedLoader(const Dataset& dataset,
                             detail::Executor& executor,
                             const LoaderOptions& options,
                             RankRange ranks,
                             SourceLoc where)
    : dataset_(dataset),
      executor_(executor),
      executor_life_(executor.life()),
      options_(named(options)) {
  set_ranks(ranks, where);
}

void ShardedLoader::set_ranks(RankRange ranks, SourceLoc where) {
  if (ranks.first < 0 || ranks.count < 1 || ranks.count > ranks.world - ranks.first) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: ranks {} to {} of a world of {} do not exist",
                                          options_.name,
                                          ranks.first,
                                          ranks.first + ranks.count - 1,
                                          ranks.world),
                      .location = where});
  }
  if (ranks != ranks_ || loaders_.empty()) {
    make_loaders(ranks, {}, where);
  }
}

void ShardedLoader::set_world(int world, SourceLoc where) {
  if (world < 1) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format(
                          "{}: the world is {}, but must be 1 rank or more", options_.name, world),
                      .location = where});
  }
  set_ranks({.first = 0, .count = world, .world = world}, where);
}

void ShardedLoader::set_shares(std::vector<std::int64_t> shares, SourceLoc where) {
  if (shares != shares_) {
    make_loaders(ranks_, shares, where);
  }
}

void ShardedLoader::make_loaders(RankRange ranks,
                                 const std::vector<std::int64_t>& shares,
                                 SourceLoc where) {
  if (executor_life_.expired()) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = options_.name +
                              ": the Runtime whose executor it was given has ended; a loader must "
                              "not outlive it",
                      .location = where});
  }
  const LoaderCursor cursor = loaders_.empty() ? LoaderCursor() : this->cursor();
  std::vector<std::unique_ptr<DataLoader>> loaders;
  for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
    LoaderOptions options = options_.shard(rank, ranks.world);
    options.shares = shares;
    loaders.push_back(std::make_unique<DataLoader>(dataset_, executor_, options, where));
    loaders.back()->seek(cursor, where);
  }
  loaders_ = std::move(loaders);
  ranks_ = ranks;
  shares_ = shares;
}

std::vector<HostBatch> ShardedLoader::next(SourceLoc where) {
  const LoaderCursor before = cursor();
  std::vector<HostBatch> shards;
  try {
    for (const std::unique_ptr<DataLoader>& loader : loaders_) {
      if (std::optional<HostBatch> shard = loader->next(where)) {
        shards.push_back(std::move(*shard));
      }
    }
  } catch (...) {
    seek(before, where);  // some ranks may have read on
    throw;
  }
  return shards;
}

void ShardedLoader::seek(LoaderCursor cursor, SourceLoc where) {
  for (const std::unique_ptr<DataLoader>& loader : loaders_) {
    loader->seek(cursor, where);
  }
}

}  // namespace hearth
