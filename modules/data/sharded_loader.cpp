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

void ShardedLoader::set_world(int world, SourceLoc where) {
  if (world < 1) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format(
                          "{}: the world is {}, but must be 1 rank or more", options_.name, world),
                      .location = where});
  }
  if (static_cast<std::size_t>(world) != loaders_.size()) {
    make_loaders(world, {}, where);
  }
}

void ShardedLoader::set_shares(std::vector<std::int64_t> shares, SourceLoc where) {
  if (shares != shares_) {
    make_loaders(world(), shares, where);
  }
}

void ShardedLoader::make_loaders(int world,
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
  for (int rank = 0; rank < world; ++rank) {
    LoaderOptions options = options_.shard(rank, world);
    options.shares = shares;
    loaders.push_back(std::make_unique<DataLoader>(dataset_, executor_, options, where));
    loaders.back()->seek(cursor, where);
  }
  loaders_ = std::move(loaders);
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
