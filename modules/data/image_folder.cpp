#include <hearth/modules/image_folder.hpp>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/settings.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

namespace hearth {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_folder(ErrorCode code, const std::string& text, SourceLoc loc) {
  throw FileError(Error{.code = code, .text = "ImageFolder: " + text, .location = loc});
}

bool is_picture(const fs::path& file) {
  std::string ending = file.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

// Whether other programs left the entry: Jupyter's .ipynb_checkpoints, macOS's .DS_Store and
// ._cat.png, the __MACOSX folder in its archives, thumbnails and deleted files of a NAS, and the
// folders of Windows and of file systems.
bool is_hidden(const fs::path& entry) {
  constexpr std::array<std::string_view, 9> kLeft{"__MACOSX",
                                                  "@eaDir",
                                                  "@Recycle",
                                                  "@Recently-Snapshot",
                                                  "#recycle",
                                                  "$RECYCLE.BIN",
                                                  "System Volume Information",
                                                  "lost+found",
                                                  "__pycache__"};
  const std::string name = entry.filename().string();
  return name.starts_with('.') || std::ranges::find(kLeft, name) != kLeft.end();
}

[[noreturn]] void refuse_entry(const fs::path& entry, const std::error_code& error, SourceLoc loc) {
  const bool is_missing = error == std::errc::no_such_file_or_directory;
  refuse_folder(is_missing ? ErrorCode::not_found : ErrorCode::io_error,
                fmt::format("{}: {}", entry.string(), error.message()),
                loc);
}

struct Entry {
  fs::path path;
  fs::file_type type = fs::file_type::none;  // of the link's target
};

// Lists a folder in the order of names.
// Errors: an entry for which `matters` is true and that is a dangling link or has no readable
// status. It would be missing silently.
template <class Matters>
std::vector<Entry> entries_of(const fs::path& folder, const Matters& matters, SourceLoc loc) {
  std::error_code error;
  std::vector<Entry> entries;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code unknown;
    const fs::file_type type = at->status(unknown).type();
    if (type == fs::file_type::not_found) {
      unknown = std::make_error_code(std::errc::no_such_file_or_directory);
    }
    if (unknown && !is_hidden(at->path()) && matters(at->path())) {
      refuse_entry(at->path(), unknown, loc);
    }
    entries.push_back({at->path(), type});
  }
  if (error) {
    refuse_entry(folder, error, loc);
  }
  std::ranges::sort(entries, {}, &Entry::path);
  return entries;
}

void check(const ImageFolderOptions& options, SourceLoc loc) {
  const auto fits = [&](const std::vector<float>& values) {
    return values.size() == 1 || values.size() == static_cast<std::size_t>(options.channels);
  };
  for (auto name = options.classes.begin(); name != options.classes.end(); ++name) {
    if (std::find(options.classes.begin(), name, *name) != name) {
      throw_error(Error{.code = ErrorCode::invalid_argument,
                        .text = fmt::format("ImageFolder: the class '{}' is given twice", *name),
                        .location = loc});
    }
  }
  const auto finite = [](float value) { return std::isfinite(value); };
  const bool is_right =
      (options.channels == 1 || options.channels == 3) && fits(options.mean) &&
      fits(options.deviation) && options.height >= 0 && options.width >= 0 &&
      (options.height == 0) == (options.width == 0) && std::ranges::all_of(options.mean, finite) &&
      std::ranges::all_of(options.deviation,
                          [&](float d) { return finite(d) && d > 0 && finite(1 / d); });
  if (!is_right) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format(
                          "ImageFolder: channels are 1 or 3, height and width both given or both "
                          "0, mean and deviation of one finite number or one a channel, deviations "
                          "above 0; got {}, {}x{}, [{}] and [{}]",
                          options.channels,
                          options.height,
                          options.width,
                          fmt::join(options.mean, ", "),
                          fmt::join(options.deviation, ", ")),
                      .location = loc});
  }
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& folder, ImageFolderOptions options, SourceLoc loc)
    : options_(std::move(options)) {
  const detail::FloatEnvironment environment;
  check(options_, loc);
  list(folder, loc);
  log_skipped(folder);
  is_scaled_ = options_.height > 0;
  if (!is_scaled_) {
    const Picture first = read_picture(files_.front(), options_.channels, loc);
    options_.height = first.height;
    options_.width = first.width;
  }
}

void ImageFolder::list(const fs::path& folder, SourceLoc loc) {
  const bool are_given = !options_.classes.empty();
  classes_ = options_.classes;
  const auto is_any = [](const fs::path&) { return true; };
  for (const Entry& entry : entries_of(folder, is_any, loc)) {
    const std::string name = entry.path.filename().string();
    const auto known = std::ranges::find(classes_, name);
    const bool is_known = known != classes_.end();
    if (entry.type != fs::file_type::directory || (is_hidden(entry.path) && !is_known)) {
      skipped_.push_back(entry.path);
      continue;
    }
    const auto label = static_cast<std::int64_t>(known - classes_.begin());
    if (!is_known) {
      if (are_given) {
        refuse_folder(
            ErrorCode::bad_format,
            fmt::format(
                "{}: the class is not among {}", entry.path.string(), fmt::join(classes_, ", ")),
            loc);
      }
      classes_.push_back(name);
    }
    list_class(entry.path, label, loc);
  }
  if (files_.empty()) {
    refuse_folder(ErrorCode::not_found,
                  fmt::format("{}: there is no subfolder, expected one a class", folder.string()),
                  loc);
  }
}

void ImageFolder::list_class(const fs::path& folder, std::int64_t label, SourceLoc loc) {
  const std::size_t before = files_.size();
  for (const Entry& entry : entries_of(folder, is_picture, loc)) {
    if (entry.type != fs::file_type::regular || is_hidden(entry.path) || !is_picture(entry.path)) {
      skipped_.push_back(entry.path);
      continue;
    }
    files_.push_back(entry.path);
    labels_.push_back(label);
  }
  if (files_.size() == before) {
    refuse_folder(ErrorCode::bad_format,
                  fmt::format("{}: the class has no .png, .jpg or .jpeg", folder.string()),
                  loc);
  }
}

// A data set has no runtime, so it logs to standard error.
void ImageFolder::log_skipped(const fs::path& folder) const {
  if (skipped_.empty()) {
    return;
  }
  const Result<detail::LogLevel> level = detail::log_level(detail::Settings::from_environment());
  detail::Log({.level = level.value()})  // an invalid level is an error
      .info(fmt::format(
          "ImageFolder: {}: {} images in {} classes; {} other entries are skipped, the first is {}",
          folder.string(),
          files_.size(),
          classes_.size(),
          skipped_.size(),
          skipped_.front().string()));
}

Examples ImageFolder::read(std::span<const std::int64_t> indices) const {
  const detail::FloatEnvironment environment;
  const auto count = static_cast<std::int64_t>(indices.size());
  const Shape shape{count, options_.channels, options_.height, options_.width};
  Examples examples{HostArray(DType::f32, shape, SourceLoc{}),
                    HostArray(DType::i64, {count}, SourceLoc{})};
  const auto channels = static_cast<std::size_t>(options_.channels);
  const auto pixels = static_cast<std::size_t>(options_.height * options_.width);
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const auto number = static_cast<std::size_t>(indices[row]);
    Picture picture = read_picture(files_[number], options_.channels, SourceLoc{});
    if (is_scaled_) {
      picture = resized(picture, options_.height, options_.width);
    } else if (picture.height != options_.height || picture.width != options_.width) {
      refuse_folder(ErrorCode::bad_format,
                    fmt::format("{}: is {}x{}, the first image {}x{}: give height and width to "
                                "have all scaled",
                                files_[number].string(),
                                picture.height,
                                picture.width,
                                options_.height,
                                options_.width),
                    SourceLoc{});
    }
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const float mean = options_.mean[options_.mean.size() == 1 ? 0 : channel];
      const float deviation = options_.deviation[options_.deviation.size() == 1 ? 0 : channel];
      const std::span<float> plane =
          examples.inputs.values<float>().subspan((row * channels + channel) * pixels, pixels);
      for (std::size_t at = 0; at < pixels; ++at) {
        const auto value = static_cast<float>(picture.pixels[at * channels + channel]);
        plane[at] = (value / 255.0F - mean) / deviation;
      }
    }
    examples.targets.values<std::int64_t>()[row] = labels_[number];
  }
  return examples;
}

}  // namespace hearth
