#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>

#include "tnt/comm/transport/rma/rma_device.hpp"

namespace tnt::comm {

/// A piece of data, if there is any, and behind it a notification, if it is of that kind. Trivially
/// copyable: it travels as is.
struct UcxPart {
  enum class Kind : std::uint8_t {
    greeting,
    piece,         ///< data for a segment
    notification,  ///< and a piece, if there is data
    key,           ///< the data is the remote key of a segment of the sender; counts as a piece
  };

  Kind kind = Kind::greeting;
  SegmentId to_segment = 0;     ///< of the piece; of a key, the sender's
  SegmentId segment = 0;        ///< of the notification
  std::uint8_t data_bytes = 0;  ///< that follow in the row; data of the last part may go apart
  std::uint32_t sender = 0;
  std::uint64_t number = 0;  ///< of the notification, or of the next one
  std::uint64_t offset = 0;  ///< of the piece
  std::uint32_t slot = 0;    ///< of the notification
  std::uint32_t value = 0;
  std::uint64_t num_pieces = 0;  ///< since the notification before, that of this part included
};
static_assert(std::is_trivially_copyable_v<UcxPart> && sizeof(UcxPart) == 40);

/// The parts of a message.
struct UcxRow {
  void append(const UcxPart& part, std::string_view data) {
    UcxPart& copy = *::new (bytes.data() + size) UcxPart(part);
    copy.data_bytes = static_cast<std::uint8_t>(data.size());
    size += sizeof copy;
    if (!data.empty()) std::memcpy(bytes.data() + size, data.data(), data.size());
    size += data.size();
  }
  bool has_room_for(std::size_t num_bytes) const { return size + num_bytes <= bytes.size(); }
  std::string_view view() const { return {bytes.data(), size}; }

  std::array<char, 512> bytes;
  std::size_t size = 0;
};

}  // namespace tnt::comm
