// The entry of libFuzzer for one target, HEARTH_FUZZ_TARGET. With FUZZ_SEEDS=folder in the
// environment, writes the seeds there and ends. A target that cannot run here prints the reason and
// ends.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fuzz_targets.hpp"

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* folder = std::getenv("FUZZ_SEEDS");
  if (folder == nullptr) {
    if (const std::string lack = hearth::fuzz::target(HEARTH_FUZZ_TARGET).lack(); !lack.empty()) {
      std::fprintf(stderr, "%s is skipped: %s\n", HEARTH_FUZZ_TARGET, lack.c_str());
      std::exit(0);
    }
    return 0;
  }
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::vector<std::byte>& seed : hearth::fuzz::seeds(HEARTH_FUZZ_TARGET)) {
    std::ofstream file(std::filesystem::path(folder) / ("seed-" + std::to_string(number++)),
                       std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()),
               static_cast<std::streamsize>(seed.size()));
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hearth::fuzz::Target target = hearth::fuzz::target(HEARTH_FUZZ_TARGET);
  try {
    target.run({reinterpret_cast<const std::byte*>(data), size});
  } catch (const hearth::fuzz::FuzzFailure& failure) {
    std::fprintf(stderr, "%s: %s\n", HEARTH_FUZZ_TARGET, failure.what());
    std::abort();
  }
  return 0;
}
