#include "build_id.hpp"

#include <hearth/runtime/base/checked_file.hpp>

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace hearth::gpu {
namespace {

struct Search {
  std::uintptr_t address = 0;  ///< An address inside the wanted object.
  std::uint64_t found = 0;
};

// NOLINTBEGIN(performance-no-int-to-ptr): an object's headers give addresses as numbers
std::span<const std::byte> segment_of(const dl_phdr_info& object, const ElfW(Phdr) & segment) {
  return {reinterpret_cast<const std::byte*>(object.dlpi_addr + segment.p_vaddr), segment.p_memsz};
}
// NOLINTEND(performance-no-int-to-ptr)

bool holds(const dl_phdr_info& object, std::uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    const std::uintptr_t first = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= first && address - first < segment.p_memsz) {
      return true;
    }
  }
  return false;
}

constexpr std::size_t aligned(std::size_t size) {
  return (size + 3) / 4 * 4;
}

/// The hash of the build id among the notes of a segment; 0 if it has none.
std::uint64_t id_in(std::span<const std::byte> notes) {
  constexpr std::string_view kOwner("GNU", 4);
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t name_at = sizeof note;
    const std::size_t id_at = name_at + aligned(note.n_namesz);
    const std::size_t end = id_at + aligned(note.n_descsz);
    if (end > notes.size()) {
      return 0;
    }
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == kOwner.size() &&
        std::memcmp(notes.data() + name_at, kOwner.data(), kOwner.size()) == 0) {
      return xxh64(notes.subspan(id_at, note.n_descsz));
    }
    notes = notes.subspan(end);
  }
  return 0;
}

int visit_object(dl_phdr_info* object, std::size_t /*size*/, void* context) {
  auto& search = *static_cast<Search*>(context);
  if (!holds(*object, search.address)) {
    return 0;
  }
  for (int i = 0; i < object->dlpi_phnum && search.found == 0; ++i) {
    if (object->dlpi_phdr[i].p_type == PT_NOTE) {
      search.found = id_in(segment_of(*object, object->dlpi_phdr[i]));
    }
  }
  return 1;
}

}  // namespace

std::uint64_t build_id() {
  Search search{.address = reinterpret_cast<std::uintptr_t>(&build_id)};
  dl_iterate_phdr(&visit_object, &search);
  return search.found;
}

}  // namespace hearth::gpu
