// hearth-bench devices: the devices of this machine, what each lacks, and the one that "auto" is.
#include <cstdio>
#include <string>
#include <string_view>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/runtime.hpp>

#include "commands.hpp"
#include "runtime/device/peaks/device_list.hpp"

namespace hearth::bench {
namespace {

void print_line(std::string_view text) {
  std::printf("            %.*s\n", static_cast<int>(text.size()), text.data());
}

void print_device(const AvailableDevice& device) {
  std::printf("%-10s  %s\n",
              device.name.c_str(),
              device.lack.empty() ? device.description.c_str() : "cannot be opened");
  if (!device.lack.empty()) {
    if (!device.description.empty()) {
      print_line(device.description);
    }
    print_line(device.lack);
    return;
  }
  if (!device.is_gpu && !device.name.starts_with("cpu:")) {
    print_line("a driver in software");
  }
  if (!device.note.empty()) {
    print_line(device.note);
  }
  if (!device.same_card_as.empty()) {
    print_line("the card of " + device.same_card_as + ", which auto prefers");
  }
}

}  // namespace

int devices_command(int argc, char** argv) {
  if (argc > 1) {
    const std::string_view first = argv[1];
    const bool is_help = first == "--help" || first == "-h";
    std::fprintf(is_help ? stdout : stderr,
                 "%sLists the devices of this machine, what each lacks, and which one auto is.\n"
                 "Usage: hearth-bench devices\n",
                 is_help ? "" : "hearth-bench devices takes no arguments.\n");
    return is_help ? 0 : 2;
  }
  for (const AvailableDevice& device : available_devices()) {
    print_device(device);
  }
  const RuntimeOptions automatic{.devices = {{.name = "auto"}}};
  std::printf("%s\n", device_list(automatic, SourceLoc::current()).choice.c_str());
  return 0;
}

}  // namespace hearth::bench
