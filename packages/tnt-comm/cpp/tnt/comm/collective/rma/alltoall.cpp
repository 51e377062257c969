#include "tnt/comm/collective/rma/alltoall.hpp"

#include <cstring>
#include <utility>

namespace tnt::comm {

RmaAlltoall::RmaAlltoall(std::shared_ptr<AbortState> abort_state,
                         std::shared_ptr<FingerprintCheck> fingerprint_check,
                         std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
                         const std::vector<Range>& parts, const void* in, void* out)
    : RmaPartsOperation(std::move(abort_state), std::move(fingerprint_check), std::move(stream),
                        descriptor, parts, in),
      out_(static_cast<std::byte*>(out)) {}

std::size_t RmaAlltoall::offset_of(int member) const {
  const Areas areas = channel().areas();
  const std::size_t area = member == channel().rank() ? areas.work : areas.landing;
  return area + static_cast<std::size_t>(member) * share();
}

void RmaAlltoall::copy_in(std::uint64_t index) {
  RmaPartsOperation::copy_in(index);
  if (sends()) fill(index, channel().rank(), offset_of(channel().rank()));
}

void RmaAlltoall::copy_out(std::uint64_t index) {
  const Range bytes = own_block(index);
  std::byte* part = out_;
  for (int member = 0; member < channel().size(); ++member) {
    if (!descriptor().is_root(member)) continue;
    if (bytes.size() > 0) {
      std::memcpy(part + bytes.begin, slot(index) + offset_of(member), bytes.size());
    }
    part += own_bytes();
  }
}

}  // namespace tnt::comm
