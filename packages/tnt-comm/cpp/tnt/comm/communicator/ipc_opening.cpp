#include "tnt/comm/communicator/ipc_opening.hpp"

#include <optional>
#include <utility>

namespace tnt::comm {
namespace {

std::string text_of(const IpcHandle& handle) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string digits;
  for (const std::byte byte : handle) {
    digits += kDigits[std::to_integer<int>(byte >> 4)];
    digits += kDigits[std::to_integer<int>(byte & std::byte{15})];
  }
  return digits;
}

IpcHandle handle_of(const std::string& digits) {
  IpcHandle handle{};
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  for (std::size_t i = 0; i < handle.size(); ++i) {
    handle[i] = static_cast<std::byte>(value(digits.at(2 * i)) * 16 + value(digits.at(2 * i + 1)));
  }
  return handle;
}

// Behind all buckets: a number of each rank, which a kernel of all others must be able to read, and
// where this rank's puts what it has read.
constexpr std::size_t kTestBytes = 256;
constexpr std::size_t kPlaceOfRead = kTestBytes / 2;
constexpr double kTestS = 30.0;

void write_mark(DeviceStream& stream, DevicePointer place, int member) {
  const float mark = static_cast<float>(member) + 1;
  stream.copy_from_host(place, &mark, sizeof mark);
  stream.synchronize(Deadline(kTestS));
}

bool reads_mark(DeviceStream& stream, DevicePointer theirs, DevicePointer own, int member) {
  constexpr double kFactor = 2;  // what is multiplied goes through a kernel
  const DevicePointer read = own + kPlaceOfRead;
  float found = 0;
  stream.pack_scaled(read, theirs, 1, DType::float32, kFactor);
  stream.copy_to_host(&found, read, sizeof found);
  stream.synchronize(Deadline(kTestS));
  return found == kFactor * (static_cast<double>(member) + 1);
}

// Why this or another rank does not read what is there; empty if all do.
std::string read_marks(Group& group, const std::vector<std::string>& gpus, DeviceStream& stream,
                       const IpcMemory& memory, std::size_t place) {
  const Agreement read(group, [&] {
    for (std::size_t local_rank = 0; local_rank < memory.size(); ++local_rank) {
      const int member = first_on_host(group) + static_cast<int>(local_rank);
      const DevicePointer theirs = memory.part_of(local_rank) + place;
      if (reads_mark(stream, theirs, memory.data() + place, member)) continue;
      throw UsageError("its GPU does not read what is in the memory of GPU ", at(gpus, member));
    }
    return std::string();
  });
  return read.obstacle();
}

}  // namespace

int num_on_host(const Group& group) {
  return group.topology() == Topology::hierarchical ? group.hosts().members_per_host : group.size();
}

int first_on_host(const Group& group) {
  return group.rank() / num_on_host(group) * num_on_host(group);
}

std::shared_ptr<IpcMemory> open_memory(Group& group, const std::vector<std::string>& gpus,
                                       const std::shared_ptr<Device>& device, std::size_t num_bytes,
                                       std::string& obstacle) {
  const int first = first_on_host(group), num_members = num_on_host(group);
  const std::size_t place_of_mark = round_up(num_bytes, kTestBytes);
  std::shared_ptr<IpcMemory> memory;
  std::optional<DeviceStream> stream;
  const Agreement offered(group, [&] {
    for (int member = first; member < first + num_members; ++member) {
      // Mostly a rank sees its own GPU only: whether it can open the others is tried.
      if (device->can_reach(at(gpus, member)).value_or(true)) continue;
      throw UsageError("its GPU ", device->pci_address(), " does not reach GPU ", at(gpus, member));
    }
    make_or_warn(group, [&] {
      memory = std::make_shared<IpcMemory>(device, place_of_mark + kTestBytes);
      stream.emplace(device);
      write_mark(*stream, memory->data() + place_of_mark, group.rank());
    });
    return text_of(memory->handle());
  });
  if (!(obstacle = offered.obstacle()).empty()) return nullptr;
  const Agreement opened(group, [&] {
    for (int member = first; member < first + num_members; ++member) {
      const IpcHandle handle = handle_of(at(offered.texts(), member));
      memory->add_peer(member == group.rank() ? nullptr
                                              : std::make_unique<PeerBuffer>(device, handle));
    }
    return std::string();
  });
  obstacle = opened.obstacle();
  if (obstacle.empty()) obstacle = read_marks(group, gpus, *stream, *memory, place_of_mark);
  if (obstacle.empty()) return memory;
  close_memory(group, *memory);
  return nullptr;
}

void close_memory(Group& group, IpcMemory& memory) {
  memory.close_peers();
  const Agreement closed(group, [] { return std::string(); });
}

}  // namespace tnt::comm
