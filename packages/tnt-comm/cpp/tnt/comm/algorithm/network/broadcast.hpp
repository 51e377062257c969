#pragma once

#include <cstddef>

#include "tnt/comm/algorithm/network/network_operation.hpp"
#include "tnt/comm/base/partition.hpp"

namespace tnt::comm {

/// What `member` of `size` does to take one piece of `num_bytes` from the root
/// to everybody, along a binomial tree: once the root has sent the piece to the
/// rank half the group away there are two who have it, then four. Pieces go
/// straight into the work areas, from which they are sent on.
///
/// A rank answers its parent as soon as it has a piece. So whoever has finished
/// a step knows that its children have begun it, which is what NetworkChannel's
/// argument needs here: a rank writes to nobody but its children.
///
/// Rounds: ceil(log2 n) for the last rank to have it; bytes: each rank sends
/// the piece to its children, the root to ceil(log2 n) of them.
Schedule broadcast_schedule(int member, int size, int root, std::size_t num_bytes,
                            const Areas& areas);

/// Broadcast of arrays of any length: pieces of a window follow each other down
/// the tree, so that a long array takes little more time than its way to the
/// root's children.
class NetworkBroadcast final : public NetworkOperation {
 public:
  /// `in` is read by the root only; `out` is written by everybody, on the root
  /// unless it is `in`.
  NetworkBroadcast(std::shared_ptr<Health> health, std::shared_ptr<Agreement> agreement,
                   std::shared_ptr<NetworkStream> stream, const Descriptor& descriptor,
                   const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index) override;
  const Schedule& schedule_of(std::uint64_t index) const override;
  void copy_out(std::uint64_t index) override;

 private:
  bool is_root() const { return channel().rank() == static_cast<int>(descriptor().root); }
  Range piece(std::uint64_t index) const;  // bytes
  std::byte* place(std::uint64_t index) const { return window(index) + channel().areas().work; }

  const std::byte* in_;
  std::byte* out_;
  std::size_t num_bytes_;
  Schedule full_;  // of all pieces but the last
  Schedule last_;
};

}  // namespace tnt::comm
