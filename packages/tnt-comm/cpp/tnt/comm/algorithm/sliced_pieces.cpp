#include "tnt/comm/algorithm/sliced_pieces.hpp"

#include <algorithm>
#include <cstring>

#include "tnt/comm/algorithm/slices.hpp"
#include "tnt/comm/kernel/pack.hpp"
#include "tnt/comm/kernel/stream_copy.hpp"

namespace tnt::comm {

struct SlicedPieces::Stretch {
  const std::byte* in;
  std::byte* out;
  double scale;
  std::size_t in_room;  // offset in bytes
  std::size_t count;    // elements
};

SlicedPieces::SlicedPieces(const WindowPipeline& pipeline, DType dtype, ReduceOp op,
                           std::size_t count)
    : pipeline_(pipeline),
      dtype_(dtype),
      stride_(size_of(dtype)),
      count_(count),
      sources_(static_cast<std::size_t>(pipeline.channel().size())),
      reducer_(dtype, op, sources_.size()) {
  const std::size_t room_length = pipeline.channel().room_bytes() / stride_;
  piece_length_ = room_length * sources_.size();
  num_pieces_ = std::max<std::size_t>(1, (count + piece_length_ - 1) / piece_length_);
}

Range SlicedPieces::elements_of(std::uint64_t piece) const {
  const std::size_t begin = piece * piece_length_;
  return {begin, std::min<std::size_t>(begin + piece_length_, count_)};
}

// Calls function(Stretch) for what runs hold of a member's slice of the piece.
template <typename Function>
void SlicedPieces::visit(std::uint64_t piece, int member, const Function& function) const {
  const Range whole = elements_of(piece);
  const Range slice = slice_of(whole.size(), dtype_, pipeline_.channel().size(), member);
  for (const Run& run : runs_) {
    const std::size_t begin = std::max(run.range.begin, whole.begin + slice.begin);
    const std::size_t end = std::min(run.range.end, whole.begin + slice.end);
    if (begin >= end) continue;
    const std::size_t offset = (begin - run.range.begin) * stride_;
    function(Stretch{run.in + offset, run.out + offset, run.scale,
                     (begin - whole.begin - slice.begin) * stride_, end - begin});
  }
}

template <typename Function>
void SlicedPieces::visit_others(std::uint64_t piece, const Function& function) const {
  for (int member = 0; member < pipeline_.channel().size(); ++member) {
    if (member == pipeline_.channel().rank()) continue;
    visit(piece, member, [&](const Stretch& stretch) { function(member, stretch); });
  }
}

void SlicedPieces::copy_in(std::uint64_t piece, std::uint64_t index) {
  const int rank = pipeline_.channel().rank();
  visit_others(piece, [&](int member, const Stretch& stretch) {
    pack_scaled(pipeline_.room(rank, member, index) + stretch.in_room, stretch.in, stretch.count,
                dtype_, stretch.scale);
  });
}

void SlicedPieces::reduce(std::uint64_t piece, std::uint64_t index) {
  const int rank = pipeline_.channel().rank();
  visit(piece, rank, [&](const Stretch& stretch) {
    const std::byte* own = stretch.in;
    if (stretch.scale != 1) {
      pack_scaled(stretch.out, stretch.in, stretch.count, dtype_, stretch.scale);
      own = stretch.out;
    }
    targets_.assign(1, stretch.out);
    for (int member = 0; member < pipeline_.channel().size(); ++member) {
      std::byte* room = pipeline_.room(member, rank, index) + stretch.in_room;
      sources_[static_cast<std::size_t>(member)] = member == rank ? own : room;
      if (member != rank) targets_.push_back(room);
    }
    reducer_.reduce_to(targets_, sources_.data(), sources_.size(), stretch.count);
  });
}

void SlicedPieces::copy_out(std::uint64_t piece, std::uint64_t index) {
  const auto copy = is_streamed_ ? stream_copy : [](void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
  };
  const int rank = pipeline_.channel().rank();
  visit_others(piece, [&](int member, const Stretch& stretch) {
    copy(stretch.out, pipeline_.room(rank, member, index) + stretch.in_room,
         stretch.count * stride_);
  });
}

}  // namespace tnt::comm
