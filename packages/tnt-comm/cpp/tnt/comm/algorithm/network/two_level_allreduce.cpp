#include "tnt/comm/algorithm/network/two_level_allreduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/algorithm/slices.hpp"

namespace tnt::comm {
namespace {

// Elements of a piece whose slices are equally long, begin on cache lines, and
// fit in a window of the host and in one of the exchange.
std::size_t elements_of_pieces(const HostWindows& windows, std::size_t longest_exchanged,
                               DType dtype) {
  constexpr std::size_t kCacheLine = 64;
  const auto num_slices = static_cast<std::size_t>(windows.size());
  const std::size_t exchanged = longest_exchanged / size_of(PartialReducer::partial_type(dtype));
  const std::size_t local = windows.window_bytes() / num_slices / size_of(dtype);
  const std::size_t line = kCacheLine / size_of(dtype);
  return std::min(exchanged, local) / line * line * num_slices;
}

}  // namespace

TwoLevelAllreduce::TwoLevelAllreduce(std::shared_ptr<Health> health,
                                     std::shared_ptr<Agreement> agreement,
                                     std::shared_ptr<NetworkStream> stream,
                                     std::shared_ptr<HostWindows> windows, const HostLayout& hosts,
                                     const Descriptor& descriptor, const Exchange& exchange,
                                     bool is_pipelined, const void* in, void* out)
    : NetworkOperation(std::move(health), std::move(agreement), std::move(stream), descriptor),
      windows_(std::move(windows)),
      hosts_(hosts),
      in_(static_cast<const std::byte*>(in)),
      out_(static_cast<std::byte*>(out)),
      element_bytes_(size_of(descriptor.dtype)),
      partial_type_(PartialReducer::partial_type(descriptor.dtype)),
      piece_elements_(elements_of_pieces(
          *windows_, longest_piece(exchange, channel().size(), channel().layout().areas),
          descriptor.dtype)),
      on_host_(descriptor.dtype, descriptor.op, static_cast<std::size_t>(windows_->size())),
      reducer_(partial_type_, descriptor.op, static_cast<std::size_t>(channel().size())),
      operands_(static_cast<std::size_t>(windows_->size())) {
  sends_before_agreement = true;
  if (!is_pipelined) most_steps_under_way = 1;
  num_steps = std::max<std::size_t>(1, (descriptor.count + piece_elements_ - 1) / piece_elements_);
  const auto schedule = [&](std::uint64_t index) {
    const std::size_t num_bytes = own_slice(index).size() * size_of(partial_type_);
    return allreduce_schedule(exchange, channel().rank(), channel().size(), num_bytes,
                              channel().areas());
  };
  if (num_steps > 1) full_ = schedule(0);
  last_ = schedule(num_steps - 1);
}

Range TwoLevelAllreduce::piece(std::uint64_t index) const {
  const std::size_t begin = index * piece_elements_;
  return {begin, std::min<std::size_t>(begin + piece_elements_, descriptor().count)};
}

Range TwoLevelAllreduce::own_slice(std::uint64_t index) const {
  return slice_of(piece(index).size(), descriptor().dtype, windows_->size(), windows_->rank());
}

const Schedule& TwoLevelAllreduce::schedule_of(std::uint64_t index) const {
  return index + 1 == num_steps ? last_ : full_;
}

void TwoLevelAllreduce::copy_in(std::uint64_t index) {
  const Range elements = piece(index);
  if (elements.size() > 0) {
    std::memcpy(windows_->own_window(step_of(index)), in_ + elements.begin * element_bytes_,
                elements.size() * element_bytes_);
  }
  windows_->post(step_of(index));
}

bool TwoLevelAllreduce::is_filled(std::uint64_t index) {
  if (!windows_->have_all_posted(step_of(index))) return false;
  const Range own = own_slice(index);
  for (int local_rank = 0; local_rank < windows_->size(); ++local_rank) {
    operands_[static_cast<std::size_t>(local_rank)] =
        windows_->window_of(local_rank, step_of(index)) + own.begin * element_bytes_;
  }
  on_host_.reduce(window(index) + channel().areas().work, operands_.data(), operands_.size(),
                  own.size());
  return true;
}

void TwoLevelAllreduce::on_exchanged(std::uint64_t index) {
  const Range own = own_slice(index);
  on_host_.round(windows_->own_window(step_of(index)) + own.begin * element_bytes_,
                 window(index) + schedule_of(index).result, own.size());
  windows_->spread(step_of(index), own.begin * element_bytes_, own.size() * element_bytes_);
  windows_->publish(step_of(index));
}

bool TwoLevelAllreduce::is_complete(std::uint64_t index) {
  return windows_->have_all_published(step_of(index));
}

void TwoLevelAllreduce::copy_out(std::uint64_t index) {
  const Range elements = piece(index);
  if (elements.size() == 0) return;
  std::memcpy(out_ + elements.begin * element_bytes_, windows_->own_window(step_of(index)),
              elements.size() * element_bytes_);
}

void TwoLevelAllreduce::append_missing(std::vector<int>& members) const {
  const auto append_local = [&](const std::vector<int>& local_ranks) {
    for (const int local_rank : local_ranks) {
      members.push_back(hosts_.member_at(host(), local_rank));
    }
  };
  if (num_exchanging() < num_begun()) {
    append_local(windows_->missing_posts(step_of(num_exchanging())));
  }
  std::vector<int> hosts;
  runs().append_missing(hosts);
  for (const int host : hosts) members.push_back(hosts_.member_at(host, windows_->rank()));
  if (num_finished() < num_exchanged()) {
    append_local(windows_->missing_publications(step_of(num_finished())));
  }
}

}  // namespace tnt::comm
