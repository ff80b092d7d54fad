// hearth-bench tune run|show|diff|export|import|clear: trials, and stored tuning results.
#include <hearth/autotune/tune_store.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/log.hpp>

#include "bench/commands.hpp"
#include "command_line.hpp"
#include "nearest_name.hpp"
#include "tune_table.hpp"

namespace hearth::bench {
namespace {

using detail::TuneFile;
using detail::TuneStore;

const std::vector<std::string> kActions{"run", "show", "diff", "export", "import", "clear"};

Error mistake(std::string text) {
  return {.code = ErrorCode::invalid_argument, .text = std::move(text)};
}

Result<std::filesystem::path> store_folder() {
  HEARTH_TRY(const std::filesystem::path cache, cache_dir());
  return cache / "autotune";
}

/// The files of the store, one a machine; `machine`: a part of their names, or empty.
Result<std::vector<std::filesystem::path>> store_files(const std::string& machine) {
  HEARTH_TRY(const std::filesystem::path folder, store_folder());
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (const auto& each : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = each.path().filename().string();
    if (each.path().extension() == ".tune" && name.find(machine) != std::string::npos) {
      files.push_back(each.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

Result<TuneStore> open_store(const TuneFile& file, detail::Log& log) {
  HEARTH_TRY(std::filesystem::path folder, store_folder());
  HEARTH_TRY_STATUS(make_folder(folder));
  return TuneStore::open(
      {.folder = std::move(folder), .fingerprint = detail::Fingerprint::of_text(file.fingerprint)},
      log);
}

Result<Exit> show(const CommandLine& line) {
  HEARTH_TRY(const auto files, store_files(line.text("--machine")));
  const std::string filter = line.names().size() > 1 ? line.names()[1] : std::string();
  for (const std::filesystem::path& path : files) {
    HEARTH_TRY(const TuneFile file, detail::read_tune_file(path));
    fmt::print("{}\n{}\n", path.string(), tune_table(file, filter));
  }
  if (files.empty()) {
    HEARTH_TRY(const std::filesystem::path folder, store_folder());
    fmt::print("no results are stored in {}\n", folder.string());
  }
  return Exit::fine;
}

Result<Exit> diff(const CommandLine& line) {
  if (line.names().size() != 3) {
    return mistake("diff takes two files");
  }
  HEARTH_TRY(const TuneFile before, detail::read_tune_file(line.names()[1]));
  HEARTH_TRY(const TuneFile after, detail::read_tune_file(line.names()[2]));
  if (before.fingerprint != after.fingerprint) {
    fmt::print("the machines differ:\n- {}\n+ {}\n", before.fingerprint, after.fingerprint);
  }
  const std::string text = tune_difference(before, after);
  fmt::print("{}", text.empty() ? "equal picks\n" : text);
  return text.empty() ? Exit::fine : Exit::wrong;
}

Result<Exit> export_file(const CommandLine& line, detail::Log& log) {
  if (line.names().size() != 2) {
    return mistake("export takes the file to write");
  }
  HEARTH_TRY(const auto files, store_files(line.text("--machine")));
  if (files.size() != 1) {
    return mistake(fmt::format("{} machines have results; --machine chooses by the file's name",
                               files.size()));
  }
  HEARTH_TRY(const TuneFile file, detail::read_tune_file(files[0]));
  HEARTH_TRY(const TuneStore store, open_store(file, log));
  HEARTH_TRY_STATUS(store.export_to(line.names()[1]));
  fmt::print("{} entries in {}\n", store.content().entries.size(), line.names()[1]);
  return Exit::fine;
}

Result<Exit> import_file(const CommandLine& line, detail::Log& log) {
  if (line.names().size() != 2) {
    return mistake("import takes a file that export wrote");
  }
  HEARTH_TRY(const TuneFile file, detail::read_tune_file(line.names()[1]));
  HEARTH_TRY(TuneStore store, open_store(file, log));
  const std::size_t before = store.content().entries.size();
  HEARTH_TRY_STATUS(store.import_from(line.names()[1]));
  fmt::print("{} entries, {} before, for the machine {}\n",
             store.content().entries.size(),
             before,
             file.fingerprint);
  return Exit::fine;
}

Result<Exit> clear(const CommandLine& line, detail::Log& log) {
  HEARTH_TRY(const auto files, store_files(line.text("--machine")));
  for (const std::filesystem::path& path : files) {
    HEARTH_TRY(const TuneFile file, detail::read_tune_file(path));
    HEARTH_TRY(TuneStore store, open_store(file, log));
    HEARTH_TRY_STATUS(store.clear());
    fmt::print("{}: {} entries removed\n", path.string(), file.entries.size());
  }
  return Exit::fine;
}

Result<Exit> act(const std::string& action, const CommandLine& line, detail::Log& log) {
  if (action == "show") {
    return show(line);
  }
  if (action == "diff") {
    return diff(line);
  }
  if (action == "export") {
    return export_file(line, log);
  }
  return action == "import" ? import_file(line, log) : clear(line, log);
}

}  // namespace

int tune_command(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "run") {
    return tune_run_command(argc - 1, argv + 1);
  }
  CommandLine line("tune run|show|diff|export|import|clear [options]",
                   "Stored tuning results, in the cache folder (HEARTH_CACHE_DIR).\n"
                   "  run [NAME...]     runs trials; `tune run --help` lists its options\n"
                   "  show [TEXT]       the entries whose key has the text, and why each won\n"
                   "  diff OLD NEW      the picks that differ between two files\n"
                   "  export FILE       writes the results of this machine, to ship them\n"
                   "  import FILE       merges such a file; equal machines use it\n"
                   "  clear             removes all results, quarantines included",
                   {{"--machine", "TEXT", "", "Only files whose name has the text"}});
  if (const std::optional<int> status =
          line.read(std::vector<std::string>(argv + 1, argv + argc))) {
    return *status;
  }
  if (line.names().empty()) {
    return refuse("tune", "it takes run, show, diff, export, import or clear", Exit::usage);
  }
  const std::string& action = line.names()[0];
  if (std::ranges::find(kActions, action) == kActions.end()) {
    return refuse("tune",
                  fmt::format("no action '{}'{}; there are {}",
                              action,
                              did_you_mean(action, kActions),
                              fmt::join(kActions, ", ")),
                  Exit::usage);
  }
  detail::Log log{detail::LogOptions{}};
  const Result<Exit> done = act(action, line, log);
  return done.has_value() ? static_cast<int>(done.value())
                          : refuse("tune", done.error().text, exit_of(done.error()));
}

}  // namespace hearth::bench
