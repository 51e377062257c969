#include "tnt/comm/collective/allgather.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/base/memory_size.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

Allgather::Allgather(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
                     const Descriptor& descriptor, std::shared_ptr<GatherInput> in,
                     std::shared_ptr<Gathered> gathered)
    : StagedOperation(std::move(abort_state), std::move(state), descriptor),
      in_(std::move(in)),
      num_bytes_(descriptor.count * size_of(descriptor.dtype)),
      gathered_(std::move(gathered)) {}

void Allgather::on_match() {
  std::size_t longest = 0;
  std::size_t end = 0;
  for (int member = 0; member < channel().size(); ++member) {
    const std::size_t num_bytes =
        bytes_in_memory(descriptor_of(member).count, size_of(descriptor().dtype),
                        text("The block of member ", member));
    longest = std::max(longest, num_bytes);
    end += num_bytes;
    gathered_->ends.push_back(end);
  }
  // The one allocation that cannot happen earlier: only now the sizes are known.
  if (descriptor().is_root(channel().rank())) gathered_->blocks = RecycledMemory(end);
  const std::size_t slot = channel().slot_bytes();
  num_blocks = std::max<std::size_t>(1, (longest + slot - 1) / slot);
}

void Allgather::copy_in(std::uint64_t index, std::byte* slot) {
  const std::size_t begin = index * channel().slot_bytes();
  if (begin >= num_bytes_) return;
  std::memcpy(slot, in_->data() + begin, std::min(channel().slot_bytes(), num_bytes_ - begin));
}

void Allgather::copy_out(std::uint64_t index) {
  if (!descriptor().is_root(channel().rank())) return;
  const std::size_t offset = index * channel().slot_bytes();
  std::size_t block_begin = 0;
  for (int member = 0; member < channel().size(); ++member) {
    const std::size_t block_end = gathered_->ends[static_cast<std::size_t>(member)];
    const std::size_t begin = block_begin + offset;
    if (begin < block_end) {
      const std::size_t length = std::min(channel().slot_bytes(), block_end - begin);
      std::memcpy(gathered_->blocks.data() + begin, slot_of(member, index), length);
    }
    block_begin = block_end;
  }
}

}  // namespace tnt::comm
